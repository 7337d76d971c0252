"""The metadata quorum: Kafka's Raft (KRaft) for one partition, `__cluster_metadata-0`.

`core/` makes the decisions and uses neither trio nor files. `driver.py` carries them out. It is the interface for the
rest of the node: `append`, `register`, `create_snapshot`, and one method per RPC. `ports.py` has the interfaces that
the quorum needs (encoding of records, requests to other controllers) and those that it calls (committed batches,
snapshots, leader changes).

Files: `metadata_log.py`, `quorum_state_store.py`, `snapshot/`, all opened by `quorum_storage.py`. `formatter.py` writes
the first ones. Wire: `wire_requests.py`, `wire_responses.py`. Deliberately absent: the meaning of the records, and
sockets.
"""

"""The metadata quorum: Kafka's Raft (KRaft) for one partition, `__cluster_metadata-0`.

`core/` decides and knows neither trio nor files; `driver.py` carries out, and is what others hold: `append`,
`register`, `create_snapshot`, one method an RPC. `ports.py` names what the quorum needs from above (how records are
encoded, how a request reaches another controller) and what it gives (committed batches, snapshots, news of the
leader). Files: `metadata_log.py`, `quorum_state_store.py`, `snapshot/`, all opened by `quorum_storage.py`;
`formatter.py` writes the first ones. Wire: `wire_requests.py`, `wire_responses.py`. Deliberately absent: what the
records mean, and sockets.
"""

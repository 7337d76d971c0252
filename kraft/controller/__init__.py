"""The controller: decides every change of the cluster's metadata.

The `*_control` modules are pure: they read an image through a `ControllerView` and return a `ControllerResult`, the
records to write and the response to send once they are committed. Only replaying the records changes anything.

`quorum_controller.py` claims and loses the role. `controller_requests.py` has one method for each request. Its
decisions go through `writes/controller_writes.py`, which appends records through the Raft layer, replays them at once
onto the pending image (`writes/pending_log.py`), and releases each response when its offset is committed.
`writes/periodic_work.py` is what the active controller does unasked. Soft state (heartbeat sessions, brokers that were
fenced early) lives in `writes/controller_term.py`. It starts afresh with every new active controller, and safety never
depends on it.
"""

"""The controller: decides every change of the cluster's metadata.

The `*_control` modules are pure. They read an image through a `ControllerView` and return a `ControllerResult`: the
records to write, and the response to send once they are committed. Only replayed records change the image.

`quorum_controller.py` claims and renounces the role of active controller. `controller_requests.py` has one method per
request. Its decisions go through `writes/controller_writes.py`, which appends records through the Raft layer, replays
them immediately onto the pending image (`writes/pending_log.py`), and releases each response when its offset is
committed. `writes/periodic_work.py` is the active controller's scheduled work.

Soft state (heartbeat sessions, brokers fenced early) is in `writes/controller_term.py`. Each new active controller
starts with empty soft state, and safety never depends on it.
"""

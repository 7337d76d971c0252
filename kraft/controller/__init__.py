"""The controller: decides every change of the cluster's metadata.

The `*_control` modules are pure: they read an image through a `ControllerView`, and answer with a `ControllerResult`
- records to write and the response to give once they are committed. They change nothing; only replaying the records
does. `quorum_controller.py` is the driver, a method a request: its decisions go through `controller_writes.py`,
which appends records through the Raft layer, replays them at once onto the pending image (`pending_log.py`), and
releases each answer when its offset is committed. `active_controller.py` claims and loses the role,
`periodic_work.py` is what the role does unasked. Soft state (heartbeat sessions, who was fenced early) lives in
`controller_term.py`, starts afresh with every new active controller, and is never needed for safety.
"""

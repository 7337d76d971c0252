"""The controller: decides every change of the cluster's metadata.

The `*_control` modules are pure: they read an image through a `ControllerView`, and answer with a `ControllerResult` - records to write and the response to
give once they are committed. They change
nothing; only replaying the records does. `quorum_controller.py` is the driver: it appends records through the Raft layer, replays them at once onto its
pending image, and releases each answer when
its offset is committed. Soft state (heartbeat sessions, who was fenced early) lives in `heartbeat_manager.py`, starts afresh with every new active controller,
and is never needed for safety.
"""

"""Groups of the classic protocol: members that join and sync, generation by generation. Pure.

Enters: JoinGroup, SyncGroup, Heartbeat and LeaveGroup over a draft. Leaves: changed groups, answers, callers that are
parked. Deliberately absent: groups of KIP-848 (`consumer`), and offsets (`offsets`).
"""

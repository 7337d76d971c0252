"""Groups of the classic protocol: members join and sync, generation by generation. Pure.

Input: JoinGroup, SyncGroup, Heartbeat and LeaveGroup over a draft. Output: changed groups, responses, parked callers.
Deliberately absent: groups of KIP-848 (`consumer`), and offsets (`offsets`).
"""

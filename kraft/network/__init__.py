"""Network: listeners, connections, frames and limits.

Input: accepted streams. Output: whole request frames for a `Dispatcher`, and replies to the peer, in order.
Deliberately absent: the meaning of requests (kraft/handlers) and permissions (kraft/security).
"""

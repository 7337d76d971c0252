"""Sockets to requests and back: listeners, connections, frames, limits.

Enters: accepted streams. Leaves: whole request frames to a `Dispatcher`, replies to the peer, in order. Deliberately
absent: what a request means (kraft/handlers) and who may send it (kraft/security).
"""

"""Clients of a simulated run: producers, transactions, readers, group members, and clients that change topics."""

"""How this broker follows leaders elsewhere: one fetcher for each, and what it knows of every partition it follows.

Enters: partitions that became followers. Leaves: Fetch requests, appends, truncations where logs diverge.
Deliberately absent: the answers to other brokers' fetches (`kraft/handlers`).
"""

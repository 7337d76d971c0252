"""How this broker follows leaders on other brokers: one fetcher per leader, and the state of every followed partition.

Enters: partitions that became followers. Leaves: Fetch requests, appends, truncations of diverging logs. Deliberately
absent: the responses to other brokers' fetches (`kraft/handlers`).
"""

"""What the HTTP admin sees of this node, and as whom: who asks, what they may do, and the Kafka requests that carry it
out here or at other brokers.

Enters: calls of `kraft_http.ports.AdminPort`. Leaves: requests to dispatchers, answers, events of denials.
Deliberately absent: HTTP (`api/kraft_http`).
"""

"""The node as the HTTP admin sees it: authentication and permissions of callers, and their Kafka requests to this node
or to other brokers.

Enters: calls of `kraft_http.ports.AdminPort`. Leaves: requests to dispatchers, responses, events of denials.
Deliberately absent: HTTP (`api/kraft_http`).
"""

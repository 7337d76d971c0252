"""Thin typed calls of Kafka's protocol, one module a noun: build the request, send it to the broker that owns the
thing, raise KafkaProblem for an error code, hand back plain values.

Nothing here knows HTTP; routers know nothing of requests and versions.
"""

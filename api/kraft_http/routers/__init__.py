"""Routes, one module a noun.

A route checks its input, asks `kraft_http.kafka`, and shapes the answer. It knows no request of the wire protocol.
"""

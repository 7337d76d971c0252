"""Routes, one module a noun. A route checks its input, asks `api.kafka`, and shapes the answer; it knows no request
of the wire."""

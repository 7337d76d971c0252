"""Routes, one module a noun.

A route checks its input, asks by an operation of `kraft.admin`, and shapes the answer. It knows no request of the wire
protocol.
"""

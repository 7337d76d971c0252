"""Routes, one module for each noun.

A route checks its input, calls an operation of `kraft.admin`, and shapes the response. It uses no request of the wire
protocol.
"""

"""The metrics that clients push about themselves (KIP-714): decoding, limits, summaries and forwarding."""

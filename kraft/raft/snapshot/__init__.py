"""Snapshots of the metadata as files: `<end offset>-<epoch>.checkpoint`, record batches from offset 0 between a
header and a footer (KIP-630).

Writing, reading, naming; nothing of what is in them.
"""

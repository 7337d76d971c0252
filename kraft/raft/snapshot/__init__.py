"""Snapshots of the metadata as files: `<end offset>-<epoch>.checkpoint`, with record batches from offset 0 between a
header and a footer (KIP-630).

Writing, reading and naming of the files. Their content is opaque here.
"""

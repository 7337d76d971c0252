"""Commands to read."""

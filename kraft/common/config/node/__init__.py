"""A node's own configuration: gathered, parsed with every problem in one report, and kept as one frozen value.

Enters: texts of the command line, files, the environment and format options. Leaves: a `NodeConfig`, listeners.
Deliberately absent: changes while the node runs (`dynamic`).
"""

"""A whole node: its parts, the order in which they are built, and how it stops. Enters: a configuration and a world.
Leaves: a serving broker, controller, or both. The parts that make a node are here; each of its features has a folder.

Deliberately absent: decisions (they are in the parts) and the process (signals, stdout, the HTTP thread: kraft/cli).
"""

"""Commands about the disks of a node, which need no running node."""

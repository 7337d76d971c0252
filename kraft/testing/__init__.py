"""Nodes for tests, which users' own tests may import: as real processes (`NodeProcess`, `ProcessCluster`) or in one
event loop (`LocalCluster`)."""

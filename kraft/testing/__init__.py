"""A node, or several, for tests: as real processes (`NodeProcess`, `ProcessCluster`) or in one loop
(`LocalCluster`). What users' own tests may import."""

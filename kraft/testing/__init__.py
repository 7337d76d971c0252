"""A node, or several, for tests: as real processes (`NodeProcess`). What users' own tests may import."""

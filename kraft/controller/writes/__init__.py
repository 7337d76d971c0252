"""The active controller's term: activation, appended but uncommitted records, and periodic work."""

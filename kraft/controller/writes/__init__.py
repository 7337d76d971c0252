"""The active controller's term: activation, appended and not yet committed records, and periodic work."""

"""Records over HTTP: produced, consumed and searched."""

"""Web pages: the status page at / and the reference at /docs. Each is one file without external resources, so that they
work without internet access."""

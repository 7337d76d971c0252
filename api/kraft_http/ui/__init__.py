"""Pages for people: the status page at / and the reference at /docs. Each is one file without anything from
elsewhere, so that they work where there is no internet."""

"""The rules, each a function from the analysed history to sentences about what breaks it. Numbers are those of the
table in docs/testing.md."""

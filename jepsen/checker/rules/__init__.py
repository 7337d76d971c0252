"""The rules. Each is a function from the analysed history to sentences, one for each violation. The numbers are those
of the table in docs/testing.md."""

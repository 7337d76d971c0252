"""Commands about a running cluster, one module each, and what several of them share."""

"""Bodies of requests and responses, one module for each noun, in the form of Confluent's REST v3: `kind`, `metadata`,
the fields, and links as `{"related": url}`."""

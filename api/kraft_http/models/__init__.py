"""Bodies of requests and answers, one module a noun, in the shape of Confluent's REST v3: `kind`, `metadata`, the
fields, and links as `{"related": url}`."""

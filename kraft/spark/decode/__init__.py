"""Record bytes to and from Arrow columns: the row schema, and JSON, Avro, Protobuf and packed values."""

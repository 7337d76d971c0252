"""Commands about records: produce, consume, measure, verify, mirror, Spark's pipelines."""

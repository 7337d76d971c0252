"""Java programs that judge kraft: Apache Kafka's server and tools, and Spark's own connector, fetched by mvn from
the poms in this folder."""

"""The table of configuration keys, and everything that derives from it.

`keys/` holds the rows, with Kafka's names and our documentation. `resources.py` has the table of each resource type
(topic, broker, logger, client metrics, group). `node/node_config.py` is the frozen view of a node's own configuration,
built by `node/layers.py` from the command line, files, environment and defaults, with every problem in one report.
`dynamic/` is about configuration in the metadata: `describe.py` computes the results of DescribeConfigs,
`alterations.py` checks changes, `topic_config.py` resolves a topic's effective values. Nothing here reads a file or the
environment: texts come in, values go out.
"""

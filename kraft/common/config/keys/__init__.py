"""The rows of the configuration table, by subject: Kafka 4.4.0's names, types, defaults and limits, with our
documentation.

A row's status says how this implementation treats the key (`kraft.common.config.definition.Status`).
"""

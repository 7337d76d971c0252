"""The rows of the configuration table, by subject: Kafka 4.3's names, types, defaults and limits; meaning in our own
words.

A row's status says what this implementation does with the key (`kraft.common.config.definition.Status`).
"""

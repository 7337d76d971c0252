"""Kafka's wire protocol, without sockets: decodes bytes to messages, and encodes messages to bytes.

`messages/` declares every message as data, generated from Kafka's schemas. `codec` compiles an encoder and a decoder
per message and version from the declarations. `framing` puts headers before bodies. `api_keys` and `error_codes` are
the protocol's tables. `records/` reads and builds record batches. Metadata and coordinator records are declared in the
same way in `kraft.metadata.records` and `kraft.coordinator.records`.

Malformed bytes raise ProtocolError and no other error. `kraft.handlers` decides which APIs a node serves, and how it
responds.
"""

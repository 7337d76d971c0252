"""Kafka's wire protocol, without sockets: bytes in, messages out, and back.

`messages/` declares every message as data, generated from Kafka's schemas; `codec` compiles an encoder and a decoder
per message and version from the declarations; `framing` puts headers before bodies; `api_keys` and `error_codes` are
the protocol's tables; `records/` reads and builds record batches. Metadata and coordinator records are declared in
the same way in `kraft.metadata.records` and `kraft.coordinator.records`.

Malformed bytes raise ProtocolError and nothing else. What a node serves, and what it answers, is decided in
`kraft.handlers`.
"""

"""The error types, by whose fault an error is. `kraft/handlers/errors.py` is the only table from these to Kafka's wire
codes."""

from __future__ import annotations


class KraftError(Exception):
    """Base of every error that kraft raises on purpose."""


class ProtocolError(KraftError):
    """The peer did wrong: malformed bytes. The connection closes with one log line."""


class ApiError(KraftError):
    """A request is refused with one of Kafka's error codes (`kraft.protocol.error_codes`) and a sentence for a
    person."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"Kafka error code {code}")
        self.code = code
        self.message = message


class NotLeader(KraftError):
    """The cluster moved on: the client refreshes and retries. Carries the leader we know, for KIP-951 hints."""

    def __init__(self, message: str, leader_id: int = -1, leader_epoch: int = -1) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class StorageError(KraftError):
    """The disk did wrong: the log directory goes offline; other directories go on."""


class OutOfResources(StorageError):
    """No space, descriptors or memory were left. What was wanted did not happen, nothing is in doubt: the directory
    stays online, and it may be tried again."""


class CorruptData(StorageError):
    """Bytes on disk are not what was written: names the file and the position."""


class ConfigurationError(KraftError):
    """The configuration is unusable. `problems` lists every one found, each a sentence naming place, key and remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

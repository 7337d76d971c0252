"""The error types, by cause. `kraft/handlers/errors.py` is the only mapping from these to Kafka's error codes."""

from __future__ import annotations


class KraftError(Exception):
    """Base of every error that kraft raises on purpose."""


class ProtocolError(KraftError):
    """The peer sent malformed bytes. Its connection is closed, with one log line."""


class ApiError(KraftError):
    """A request is rejected with one of Kafka's error codes (`kraft.protocol.error_codes`) and a message."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"Kafka error code {code}")
        self.code = code
        self.message = message


class NotLeader(KraftError):
    """This broker is not the leader: the client refreshes its metadata and retries. Carries the known leader, for
    KIP-951."""

    def __init__(self, message: str, leader_id: int = -1, leader_epoch: int = -1) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class StorageError(KraftError):
    """The disk failed: its log directory goes offline; other directories continue."""


class OutOfResources(StorageError):
    """Disk space, file descriptors or memory are exhausted. The operation had no effect, so the directory stays online
    and the operation may be retried."""


class CorruptData(StorageError):
    """Data on disk is corrupt. The message names the file and the position."""


class ConfigurationError(KraftError):
    """The configuration is invalid. `problems` has every problem found, each a message with place, key and remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

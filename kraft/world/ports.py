"""The world as a value: every source of nondeterminism a node may touch enters through these ports.

`kraft.world.real` implements them with trio, os and sockets; `kraft.world.simulated` in memory, from a seed, with
faults. Product code outside `kraft/world` never imports time, random, uuid, secrets, threading, socket or open()
(`tests/tidy`). A node is `run_node(config, world)`: ten nodes live in one process, each with a world of its own.

Times are seconds as floats unless a name ends in `_ms`. Paths are plain `str`, absolute, with `/`.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Buffer = bytes | bytearray | memoryview


class CancelScope(Protocol):
    """The scope that `Clock.move_on_at` yields. It is cancelled when its deadline passes on the node's clock."""

    @property
    def cancelled_caught(self) -> bool: ...
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time as one node sees it. The simulator may pause it, skew it, or run it fast or slow, for each node apart."""

    def now(self) -> float:
        """Monotonic seconds since an arbitrary start."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""

    async def sleep(self, seconds: float) -> None: ...
    async def sleep_until(self, deadline: float) -> None:
        """Sleep until `now() >= deadline`. `math.inf` sleeps for ever."""

    def move_on_at(self, deadline: float) -> AbstractContextManager[CancelScope]:
        """Cancel the body once `now() >= deadline`; leaves quietly, with `cancelled_caught` set."""

    def move_on_after(self, seconds: float) -> AbstractContextManager[CancelScope]: ...


class Randomness(Protocol):
    """Independent random streams, one for each purpose, so that a new draw for one purpose does not change the draws
    for others."""

    def stream(self, purpose: str) -> random.Random: ...
    def uuid(self, purpose: str) -> bytes:
        """Sixteen random bytes in the form of a version 4 UUID."""


class File(Protocol):
    """An open file. Not shared between threads while a write runs; `pread` is safe at any time. Every method raises
    OSError as the kernel would."""

    @property
    def path(self) -> str: ...
    def size(self) -> int: ...
    def pread(self, count: int, offset: int) -> bytes:
        """Up to `count` bytes from `offset`; fewer only at the end of the file."""

    def read_resident(self, count: int, offset: int) -> Buffer | None:
        """The `count` bytes from `offset`, or None if reading them would wait for the disk. Raises OSError also at the
        file's end."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all of `buffers` at the end (one writev). Returns the position of the first byte. After an error the
        tail is undefined: the caller must truncate."""

    def pwrite(self, data: Buffer, offset: int) -> None: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None:
        """fsync: content and size are durable when it returns. A failed sync must never be retried (the kernel may
        have dropped the pages)."""

    def resident(self, offset: int, count: int) -> bool:
        """Whether a read would not wait for the disk, as far as a cheap probe tells (RWF_NOWAIT every 128 KB)."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileStatus:
    size: int
    modified_ms: int
    is_directory: bool


class FileSystem(Protocol):
    """Files as the storage engine sees them. `File.sync` makes content durable, `sync_directory` makes names durable;
    a crash keeps what was synced and any subset of the rest."""

    def open(
        self, path: str, *, create: bool = False, exclusive: bool = False, truncate: bool = False, writable: bool = True
    ) -> File:
        """Raises FileNotFoundError without `create`; FileExistsError with `exclusive` (which implies `create`)."""

    def exists(self, path: str) -> bool: ...
    def status(self, path: str) -> FileStatus: ...
    def list_directory(self, path: str) -> list[str]:
        """Names in the directory, sorted."""

    def make_directories(self, path: str) -> None:
        """mkdir -p; new names become durable with `sync_directory` of their parents."""

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, and replace an existing file. A directory can only replace an empty directory."""

    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclusive advisory lock on a file (created if missing), held until exit or death of the process. Raises
        LockHeld if another process holds it."""

    def reserve(self, path: str, size: int) -> None:
        """Allocate `size` bytes for the file at `path` (created if missing), with undefined content. Not durable.
        Raises OSError (ENOSPC); the size is then unchanged."""

    def free_bytes(self, path: str) -> int: ...
    def total_bytes(self, path: str) -> int: ...
    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...
    def set_read_only(self, path: str) -> None:
        """Set the file's mode to 0400: readable by its owner only, not writable."""

    def set_private(self, path: str) -> None:
        """Let only the owner use a file or directory (mode 0600, 0700). `open` and `make_directories` create private
        ones. Has no effect on files of another user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings: own keys, and the certificates that are trusted. A value: equal settings are equivalent."""

    certificate_chain: str = field(default="", repr=False)
    """The own certificate and the intermediate ones up to its authority, as PEM. Empty: no certificate is sent."""
    private_key: str = field(default="", repr=False)
    """The private key as PEM."""
    key_password: str | None = field(default=None, repr=False)
    trusted: str = field(default="", repr=False)
    """Trusted authorities, as PEM. Empty: a client uses those of the operating system."""
    client_auth: str = "none"
    """Whether a server requires certificates from clients: none, requested, required."""
    check_host: bool = True
    """Whether a client verifies that the server's certificate names the host."""
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """The permitted TLS versions: a gapless range, the lowest first."""
    ciphers: tuple[str, ...] = ()
    """Cipher suites of TLS 1.2, by OpenSSL's names. Empty: the library's default."""


class LoginTokens(Protocol):
    """The source of OAUTHBEARER tokens."""

    @property
    def extensions(self) -> Mapping[str, str]:
        """The SASL extensions sent with a token (KIP-342)."""

    async def token(self, world: World) -> str:
        """A valid token, fetched through `world`. Raises OSError with a message if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A client's SASL credentials."""

    mechanism: str
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    username: str
    """The user name. With OAUTHBEARER it is the client id at the authority, or empty."""
    password: str = field(default="", repr=False)
    by_token: bool = False
    """Whether `username` is a delegation token's id, and `password` its HMAC in base64. For SCRAM only."""
    tokens: LoginTokens | None = field(default=None, repr=False)
    """The source of tokens for OAUTHBEARER."""


class Stream(Protocol):
    """A connected TCP stream, encrypted or not. One task receives; sends are serialised by their caller. A broken or
    closed stream raises ConnectionError (OSError's subclass)."""

    @property
    def is_encrypted(self) -> bool: ...
    async def handshake(self) -> None:
        """Perform the TLS handshake of an accepted stream, before anything is received or sent. Returns immediately on
        a plain stream. Raises ConnectionError with the reason. May hang: bound it with the clock."""

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate (DER), known after the handshake; None without one."""

    @property
    def peer(self) -> str:
        """Host of the other side, as text, for logs and per-IP limits. `peer_port` is 0 if it is not known."""

    @property
    def peer_port(self) -> int: ...
    @property
    def local(self) -> tuple[str, int]: ...

    def receive_nowait(self, buffer: memoryview) -> int | None:
        """Receive into `buffer`. Returns the number of bytes; 0 at the end of the stream; None if none have arrived
        yet."""

    async def wait_readable(self, expected: int = 1) -> None:
        """Return when there is something to receive, the end of the stream included. If `expected` bytes will arrive,
        it may wait for a good part of them."""

    async def wait_ended(self) -> None:
        """Return when the peer has ended the stream and all that it sent was received. Receives nothing itself. Another
        task may wait for the stream to be readable meanwhile."""

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        """The number of bytes of `buffers` accepted now, possibly 0. An encrypted stream may hold some of them back
        until `wait_writable` and the next send."""

    async def wait_writable(self) -> None: ...
    async def send_all(self, buffers: Sequence[Buffer]) -> None: ...
    async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
        """Send `count` bytes of `file` from `offset`, and return the number sent: all, or with `only_resident` those
        before the first that would wait for the disk."""

    def close(self) -> None:
        """Close immediately; only what the kernel has buffered is still sent. Idempotent. Tasks that wait on the stream
        get ConnectionError."""


class Listener(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int:
        """The bound port, also if port 0 was requested."""

    async def accept(self) -> Stream: ...
    def take_tls(self, tls: Tls) -> None:
        """Use these keys for later connections. Raises ValueError with a message, and keeps the previous keys, if they
        cannot be used."""

    def close(self) -> None: ...


class Network(Protocol):
    async def listen(self, host: str, port: int, backlog: int = 50, tls: Tls | None = None) -> Listener:
        """Listen on a port. Raises OSError (EADDRINUSE ...), ValueError with a message for unusable keys."""

    async def connect(self, host: str, port: int, tls: Tls | None = None) -> Stream:
        """Connect; with `tls`, including the handshake. Raises ConnectionRefusedError if no process listens, OSError
        otherwise (UnknownHost), ValueError as `listen` does. May hang: bound it with the clock."""


class Threads(Protocol):
    """Work that releases the GIL (fsync, compression, hashing) and blocking file calls. The simulator runs it at a
    drawn delay, or never, if the node dies first."""

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run `function` in a thread. It gets immutable arguments and file handles only, uses no state of the loop, and
        is not started if the task has been cancelled."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that has the file of a lock open."""

    pid: int
    command: str
    is_frozen: bool
    """Whether the process is stopped (SIGSTOP), so that it does not react to a signal to end."""


class LockHeld(BlockingIOError):
    """Raised if another process holds the lock of a file. `holders` are the visible ones, by pid."""

    def __init__(self, path: str, holders: Sequence[LockHolder]) -> None:
        super().__init__(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.holders = holders


class WorkFailed(Exception):
    """Raised if a work process died, or its work failed unexpectedly. The work may be started again."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """A point at which work may be interrupted. The step that ends here must take at least `seconds`."""

    seconds: float = 0.0


Work: TypeAlias = Callable[["FileSystem", A], Iterator[StepEnd | R]]
"""A long computation that touches files and its one argument only. It yields a StepEnd every few milliseconds, and
results. A work process finds it by its name, so it is a function of a module; argument and results are pickled."""


class Worker(Protocol):
    """A work process, used by one task."""

    async def begin(self, work: Work[A, R], argument: A) -> None:
        """Start `work`, which then waits for `next_result`. Earlier work is abandoned. The first call starts the
        process. Raises WorkFailed."""

    async def next_result(self) -> Any:
        """The next result of the work, which pauses after each result. Raises WorkFailed, also if there are no more
        results, and the OSError that the work raises."""


class Workers(Protocol):
    """Runs long computations, which would hold the interpreter, in processes of their own.

    A work process never outlives the node: a node that holds the lock of a directory knows that no work of an earlier
    one writes there. The simulator runs the work in place, a few steps at a time, at drawn delays.
    """

    def open(self) -> AbstractAsyncContextManager[Worker]:
        """A worker. Its process is ended, at whatever step of its work, when the body exits."""


LONG_STEP_SECONDS = 0.001
"""A step of the event loop that takes this long or longer is reported to its observers."""


class StepWatcher(Protocol):
    idle_seconds: float
    """Total time that the loop was idle. The loop adds to it."""

    def long_step(self, task: str, seconds: float) -> None:
        """A step of `task` (the name of its function) took `seconds`, LONG_STEP_SECONDS or more.

        Called on the loop, right after the step. Must return quickly and not raise.
        """


class Loop(Protocol):
    """The event loop that runs the node. A step is what one task does between two awaits that wait; no other task runs
    meanwhile."""

    def watch(self, watcher: StepWatcher) -> AbstractContextManager[None]:
        """Report every long step to `watcher` while the body runs. Enter and exit on the loop."""


class ObjectError(Exception):
    """Base of the errors of an object store."""


class ObjectMissing(ObjectError):
    """Raised if the object does not exist."""


class ObjectRefused(ObjectError):
    """Raised if the store rejects the request: a permission is missing, or a name is invalid. A retry does not help."""


class ObjectUnreachable(ObjectError):
    """Raised if the store failed or did not answer in time. The operation may have happened, or may still happen."""


class FilePart(NamedTuple):
    """The first `size` bytes of a file."""

    path: str
    size: int


class ObjectDigest(NamedTuple):
    """Size and checksum of a content, for comparing two contents."""

    size: int
    crc32c: int


class ObjectStore(Protocol):
    """Objects under names like `a/b/c`, each complete or absent. Every call raises ObjectError, and takes at most the
    store's timeout; each part of a large object has that time."""

    async def put(self, name: str, content: Buffer | FilePart) -> ObjectDigest:
        """Store an object, replacing one of the same name. Returns the digest of what was sent. A file is read in a
        thread, a part at a time; raises OSError if it cannot be read, or is shorter."""

    async def digest(self, name: str) -> ObjectDigest:
        """The digest of the stored object, which is read back completely, a part at a time."""

    async def get_range(self, name: str, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`; fewer only at the end of the object."""

    async def list_names(self, prefix: str, after: str, count_max: int) -> list[str]:
        """The first `count_max` names after `after` in the folder `prefix` and its subfolders, sorted."""

    async def delete(self, name: str) -> None:
        """Delete the object. Has no effect if it does not exist."""


class Objects(Protocol):
    def open(self, uri: str, *, timeout_seconds: float) -> ObjectStore:
        """The store at `uri`, whose path is the prefix of every name. Sends no request yet. Raises ValueError with a
        message for an unusable URI."""


class ProcessUsage(NamedTuple):
    """The resources that this process uses."""

    cpu_seconds: float
    """User and system time of all threads."""
    resident_bytes: int
    open_files: int
    open_files_max: int
    started_at: float
    """The start of the process, in seconds since 1970."""


class World(Protocol):
    """Everything outside one node."""

    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> Randomness: ...
    @property
    def files(self) -> FileSystem: ...
    @property
    def network(self) -> Network: ...
    @property
    def tls(self) -> Tls | None:
        """The TLS settings of connections to Kafka nodes; None for plain connections."""

    @property
    def login(self) -> Login | None:
        """The login of this process at Kafka nodes; None without one."""

    @property
    def threads(self) -> Threads: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def objects(self) -> Objects: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def process_id(self) -> int: ...
    def process_usage(self) -> ProcessUsage | None:
        """The resource usage of this process; None if it is unknown."""

    def log_sink(self, line: Mapping[str, Any]) -> None:
        """Write one structured log event of this node; the composition root decides where to."""


class SecuredWorld:
    """A world like another, in which connections to Kafka nodes are encrypted, or begin with a login, or both."""

    __slots__ = (
        "_tls",
        "clock",
        "environment",
        "files",
        "log_sink",
        "login",
        "loop",
        "network",
        "objects",
        "process_id",
        "process_usage",
        "random",
        "threads",
        "workers",
    )

    def __init__(self, world: World, tls: Callable[[], Tls] | None, login: Login | None) -> None:
        """`tls` returns the current keys."""
        self._tls = tls
        self.login = login
        self.clock = world.clock
        self.random = world.random
        self.files = world.files
        self.network = world.network
        self.threads = world.threads
        self.workers = world.workers
        self.objects = world.objects
        self.loop = world.loop
        self.environment = world.environment
        self.process_id = world.process_id
        self.process_usage = world.process_usage
        self.log_sink = world.log_sink

    @property
    def tls(self) -> Tls | None:
        return None if self._tls is None else self._tls()

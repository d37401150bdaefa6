"""The store through which the members of a fleet talk: torch's TCPStore, on a socket that is bound where told.

Records are JSON, in parts of bounded size, and checked before they are used. Nothing is pickled. Whoever can connect to
the port can read and write the store, so it belongs on a trusted network.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

import msgspec

from modelzoo.errors import EnvironmentProblem, InputError
from modelzoo.fleet.membership import Address
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import RecordHead

T = TypeVar("T")
PART = 1 << 20
"""Bytes of a value in the store. torch's server accepts up to 8 MiB."""
LARGEST = 256 << 20
"""Bytes of the largest record: a shard of 50 pictures with 300 masks each takes a tenth of it."""
ANSWER_SECONDS = 60.0
"""How long the host of the store may take to answer one request, or to appear after the start."""
_RETRY = 0.2
_LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"


class StoreLostError(EnvironmentProblem):
    """The host of the store does not answer."""


class Server:
    """The store itself. It lives in a thread of torch in this process, until ``close``.

    Args:
        bind: the address to listen on. port: 0 for any that is free.

    Attributes:
        port: the port that it listens on.

    Raises:
        EnvironmentProblem: the address is not one of this host, or the port is taken.
    """

    def __init__(self, bind: str, port: int) -> None:
        try:
            family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
            listening = socket.create_server((bind, port), family=family, backlog=128)
        except OSError as error:
            raise EnvironmentProblem(f"cannot listen on {Address(bind, port)}: {_advice(error)}") from error
        self.port = int(listening.getsockname()[1])
        with listening, _quiet():
            self._store: Any = _tcp_store()(
                bind,
                self.port,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=ANSWER_SECONDS),
                master_listen_fd=os.dup(listening.fileno()),
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store = None


class Connection:
    """A connection to the store. Its methods may be called from one thread at a time.

    Args:
        address: of the store.
        prefix: of all names, so that what several fleets or several settings put into one store stays apart.
        kept: what to say about finished work if the store is lost: "finished shards are kept in DIR".
        seconds: how long the host may take to appear, and to answer.

    Raises:
        StoreLostError: the host does not answer; every method may raise it.
    """

    def __init__(self, address: Address, prefix: str = "", kept: str = "", seconds: float = ANSWER_SECONDS) -> None:
        self._address, self._prefix, self._kept, self._seconds = address, prefix, kept, seconds
        self._store: Any = None
        self._wait_for_host()
        with _quiet():
            made_by = _tcp_store()  # not within the time for an answer: importing torch takes seconds
            self._store = self._ask(
                lambda: made_by(
                    address.host,
                    address.port,
                    is_master=False,
                    wait_for_workers=False,
                    timeout=timedelta(seconds=seconds),
                )
            )

    def add(self, name: str, number: int) -> int:
        """Add to a counter, which begins at 0, and return the sum."""
        return int(self._ask(lambda: self._store.add(self._prefix + name, number)))

    def has(self, name: str) -> bool:
        """Whether a whole record of this name has been put into the store."""
        return bool(self._ask(lambda: self._store.check([self._prefix + name])))

    def put(self, name: str, record: object) -> None:
        """Put a record into the store, as JSON in parts; its head comes last, so that readers see all of it or nothing.

        Raises:
            InputError: it is larger than ``LARGEST``.
        """
        data = encode_json(record)
        if len(data) > LARGEST:
            raise InputError(
                f"a record of {len(data) >> 20} MiB is too large for the store, which takes {LARGEST >> 20} MiB; a "
                "shard is smaller with smaller --shard-items"
            )
        for number, start in enumerate(range(0, len(data), PART)):
            self._set(f"{name}/{number}", data[start : start + PART])
        self._set(name, encode_json(RecordHead(len(data), hashlib.sha256(data).hexdigest())))

    def take(self, name: str, decode: Callable[[bytes], T]) -> T:
        """Remove a record, which must be there, from the store and return it; arguments and errors as of ``read``."""
        found, parts = self._read(name, decode)
        for key in (name, *(f"{name}/{number}" for number in range(parts))):
            self._delete(key)
        return found

    def read(self, name: str, decode: Callable[[bytes], T]) -> T:
        """Return a record, which must be there, and leave it in the store.

        Args:
            decode: from JSON; raises ``msgspec.DecodeError`` for anything that is not expected.

        Raises:
            InputError: it is larger than it may be, incomplete, altered or not what ``decode`` expects.
        """
        return self._read(name, decode)[0]

    def _read(self, name: str, decode: Callable[[bytes], T]) -> tuple[T, int]:
        """The record, and the number of its parts."""
        try:
            head = msgspec.json.decode(self._get(name), type=RecordHead)
            if not 0 <= head.size <= LARGEST:
                raise ValueError(f"has {head.size} bytes, and at most {LARGEST} are allowed")
            parts = [self._part(f"{name}/{number}") for number in range(-(-head.size // PART))]
            data = b"".join(parts)
            if len(data) != head.size or hashlib.sha256(data).hexdigest() != head.sha256:
                raise ValueError("is incomplete or was altered")
            return decode(data), len(parts)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InputError(f"a record in the store of the fleet ({name}) cannot be used: {error}") from error

    def _set(self, key: str, value: bytes) -> None:
        self._ask(lambda: self._store.set(self._prefix + key, value))

    def _delete(self, key: str) -> None:
        self._ask(lambda: self._store.delete_key(self._prefix + key))

    def _get(self, key: str) -> bytes:
        if not self.has(key):  # else ``get`` would wait for it
            raise ValueError(f"{key} is missing")
        return bytes(self._ask(lambda: self._store.get(self._prefix + key)))

    def _part(self, key: str) -> bytes:
        found = self._get(key)
        if len(found) > PART:
            raise ValueError(f"{key} has {len(found)} bytes, and at most {PART} are allowed")
        return found

    def _wait_for_host(self) -> None:
        """Wait until somebody listens; torch's own attempts print their call stacks."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                with socket.create_connection((self._address.host, self._address.port), timeout=self._seconds):
                    return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise self._lost(error.strerror or str(error)) from error
            time.sleep(_RETRY)

    def _ask(self, call: Callable[[], T]) -> T:
        """Do one request in bounded time: torch's client waits for ever if the network drops what it sends."""
        found: list[T] = []
        problems: list[Exception] = []

        def run() -> None:
            try:
                found.append(call())
            except Exception as error:  # torch raises RuntimeError, and others of its own
                problems.append(error)

        thread = threading.Thread(target=run, daemon=True, name="store")
        thread.start()
        thread.join(self._seconds)
        if found:
            return found[0]
        reason = str(problems[0]).splitlines()[0] if problems else f"no answer within {self._seconds:g} s"
        raise self._lost(reason) from (problems[0] if problems else None)

    def _lost(self, reason: str) -> StoreLostError:
        kept = f"; {self._kept}, run the same command again" if self._kept else "; run the same command again"
        return StoreLostError(f"the host of the store, {self._address}, does not answer ({reason}){kept}")


def _advice(error: OSError) -> str:
    """What a socket's error says, and what to do about it."""
    code = error.errno or 0  # below 0 if a name could not be resolved
    reason = os.strerror(code) if code > 0 else error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        return f"{reason}; give all hosts another port with --store HOST:PORT"
    return (
        f"{reason}; rank 0 must run on the host of the store: name an address of that host with --store HOST:PORT, or "
        "with --bind ADDRESS if others reach it by another name"
    )


def _tcp_store() -> Any:
    from torch.distributed import TCPStore

    if "master_listen_fd" not in (TCPStore.__init__.__doc__ or ""):
        raise EnvironmentProblem("this torch cannot bind its store to one address; 'modelzoo fleet' needs 2.1 or newer")
    return TCPStore


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch, if it is first imported here, from printing a call stack for each connection that is lost."""
    before = os.environ.get(_LOG_LEVEL)
    os.environ.setdefault(_LOG_LEVEL, "FATAL")
    try:
        yield
    finally:
        if before is None:  # workers must not inherit it
            os.environ.pop(_LOG_LEVEL, None)


class Heartbeat:
    """Shows the others that this member is alive, every few seconds, until ``close``."""

    def __init__(self, connection: Connection, name: str, every: float) -> None:
        self._connection, self._name, self._every = connection, name, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Optional[TracebackType]
    ) -> None:
        self._ended.set()
        self._thread.join(1.0)

    def _beat(self) -> None:
        try:
            while not self._ended.is_set():
                self._connection.add(self._name, 1)
                self._ended.wait(self._every)
        except StoreLostError:
            return  # the member finds out when it next has something to say

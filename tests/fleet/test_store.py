"""The store: where it listens, what it takes, and what members hear if it is lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import psutil
import pytest
from fleet_members import free_port

from modelzoo.errors import EnvironmentProblem, InputError
from modelzoo.fleet import store
from modelzoo.fleet.membership import Address
from modelzoo.fleet.store import Connection, Server, StoreLostError
from modelzoo.records.fleet import Left, decode_to_host


@pytest.fixture
def connection() -> Iterator[Connection]:
    """A connection to a store on loopback."""
    with Server("127.0.0.1", 0) as server:
        yield Connection(Address("127.0.0.1", server.port), seconds=5.0)


def test_it_listens_on_the_address_that_was_told_and_no_other() -> None:
    """torch's own store would listen on every interface."""
    with Server("127.0.0.1", 0) as server:
        listening = {
            each.laddr.ip
            for each in psutil.Process().net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == server.port
        }
        assert listening == {"127.0.0.1"}


def test_an_address_of_another_host_is_an_error_that_says_what_to_do() -> None:
    """So is a port that is taken."""
    with pytest.raises(
        EnvironmentProblem, match=r"cannot listen on 192\.0\.2\.1:29501: .*name an address of that host"
    ):
        Server("192.0.2.1", 29501)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(EnvironmentProblem, match="already in use; give all hosts another port with --store HOST:PORT"),
    ):
        Server("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("length", [0, 10, store.PART, 3 * store.PART + 7])
def test_records_of_any_size_arrive_whole_and_are_removed(connection: Connection, length: int) -> None:
    """In parts if they are large; nothing of them stays in the store."""
    sent = Left("x" * length)
    assert not connection.has("name")
    connection.put("name", sent)
    assert connection.has("name")
    assert connection.take("name", decode_to_host) == sent
    assert not connection.has("name")
    assert not connection.has("name/0")


def test_what_is_too_large_is_not_sent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver does not take it either."""
    connection.put("name", Left("x" * 100))
    monkeypatch.setattr(store, "LARGEST", 50)
    with pytest.raises(InputError, match="too large for the store, .* smaller with smaller --shard-items"):
        connection.put("other", Left("x" * 100))
    with pytest.raises(InputError, match="at most 50 are allowed"):
        connection.take("name", decode_to_host)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("name/0", b"{}", "is incomplete or was altered"),
        ("name", b"no JSON", "cannot be used"),
        ("name", b'{"size":-1,"sha256":""}', "cannot be used"),
        ("name", b'{"size":9000000,"sha256":""}', "name/1 is missing"),
        ("name/0", b"x" * (store.PART + 1), f"at most {store.PART} are allowed"),
    ],
)
def test_what_others_put_into_the_store_is_checked(
    connection: Connection, key: str, value: bytes, problem: str
) -> None:
    """Anybody who can connect can write to it."""
    connection.put("name", Left("a reason"))
    connection._set(key, value)
    with pytest.raises(InputError, match=problem):
        connection.take("name", decode_to_host)


def test_a_record_of_another_kind_is_refused(connection: Connection) -> None:
    """Its types are checked, too."""
    connection.put("name", {"type": "left", "error": 7})
    with pytest.raises(InputError, match="Expected `str`, got `int`"):
        connection.take("name", decode_to_host)


def test_a_host_that_does_not_appear_is_named_with_what_is_kept() -> None:
    """One line, after the time that was given."""
    port = free_port()
    with pytest.raises(StoreLostError) as problem:
        Connection(Address("127.0.0.1", port), kept="finished shards are kept in DIR", seconds=0.3)
    assert str(problem.value) == (
        f"the host of the store, 127.0.0.1:{port}, does not answer (Connection refused); finished shards are kept in "
        "DIR, run the same command again"
    )


def test_a_host_that_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's client itself would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StoreLostError, match="does not answer"):
        Connection(Address("127.0.0.1", silent.getsockname()[1]), seconds=0.5)


def test_prefixes_keep_fleets_apart() -> None:
    """Two settings of one call use one store."""
    with Server("127.0.0.1", 0) as server:
        first, second = (Connection(Address("127.0.0.1", server.port), f"{number}/", seconds=5.0) for number in (0, 1))
        assert first.add("members", 1) == 1
        assert second.add("members", 1) == 1
        first.put("name", Left())
        assert not second.has("name")


def test_messages_are_told_apart_by_their_tags() -> None:
    """A message without one is none."""
    with pytest.raises(msgspec.DecodeError):
        decode_to_host(b'{"error":""}')

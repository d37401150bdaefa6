"""Which member a process is: torchrun's environment, and where the store is."""

from __future__ import annotations

import pytest

from modelzoo.errors import UsageError
from modelzoo.fleet.membership import Address, membership, parse_address

TORCHRUN = {
    "RANK": "2",
    "WORLD_SIZE": "10",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "1",
}
"""What torchrun 2.10 sets, as far as it is read."""


def test_the_store_is_beside_that_of_torchrun() -> None:
    """On the port after its own, bound to the address by which the others know the host, and to no other."""
    here = membership(TORCHRUN)
    assert (here.rank, here.size, here.restarts, here.has_store) == (2, 10, 1, False)
    assert (here.store, here.bind) == (Address("10.0.0.1", 29501), "10.0.0.1")


def test_options_replace_what_torchrun_says() -> None:
    """The members reach the store by one address, and its host may listen on another."""
    here = membership({**TORCHRUN, "RANK": "0"}, "zoo-0.zoo:4000", "192.168.0.7")
    assert here.has_store
    assert (here.store, here.bind) == (Address("zoo-0.zoo", 4000), "192.168.0.7")


def test_without_torchrun_the_error_says_how_to_start_it() -> None:
    """One line with the whole command."""
    with pytest.raises(UsageError, match="must be started by torchrun on every host: torchrun --nnodes N --node-rank"):
        membership({})


def test_several_processes_on_a_host_are_refused() -> None:
    """They would share its cores."""
    with pytest.raises(UsageError, match="needs one process per host, not 2"):
        membership({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"})


def test_there_is_no_port_after_the_last_one() -> None:
    """Unless the store is named."""
    last = {**TORCHRUN, "MASTER_PORT": "65535"}
    with pytest.raises(UsageError, match="name another for the store with --store HOST:PORT"):
        membership(last)
    assert membership(last, "10.0.0.1:4000").store == Address("10.0.0.1", 4000)


def test_addresses_read_as_they_are_written() -> None:
    """IPv6 has brackets."""
    for text in ("10.0.0.1:1", "[fe80::1]:65535", "host:29501"):
        assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "fe80::1:29501", "a b:1"])
def test_other_addresses_are_refused(text: str) -> None:
    """With an example of one that is accepted."""
    with pytest.raises(UsageError, match=r"must have the form HOST:PORT, for example 10\.0\.0\.1:29501"):
        parse_address(text)

"""Which member of the fleet this process is, and where the store is: from torchrun's environment and the options."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Optional

import msgspec

from modelzoo.errors import UsageError

_EXAMPLE = (
    "torchrun --nnodes N --node-rank I --nproc-per-node 1 --master-addr HOST --master-port 29500 -m modelzoo fleet …"
)
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\s]+)):(?P<port>\d{1,5})")


class Address(msgspec.Struct, frozen=True):
    """A TCP address; the host is a name or an IP address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Membership(msgspec.Struct, frozen=True):
    """One member.

    Attributes:
        rank: of torchrun; the process of rank 0 has the store.
        size: number of members.
        restarts: how often torchrun has restarted this process.
        host: the name of this host.
        store: where the store is, as the members reach it.
        bind: the address that the host of the store listens on.
    """

    rank: int
    size: int
    restarts: int
    host: str
    store: Address
    bind: str

    @property
    def has_store(self) -> bool:
        """Whether this process has the store, and collects what the others found."""
        return self.rank == 0


def membership(environ: Mapping[str, str], store: Optional[str] = None, bind: Optional[str] = None) -> Membership:
    """Return which member this process is.

    Args:
        environ: with the variables that torchrun sets.
        store: ``--store HOST:PORT``; default: torchrun's master address, and the port after its own.
        bind: ``--bind ADDRESS``; default: the host of the store.

    Raises:
        UsageError: torchrun has not started this process, or has started several on this host; an address is not valid.
    """
    try:
        rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        local, restarts = int(environ["LOCAL_WORLD_SIZE"]), int(environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        master = environ["MASTER_ADDR"], int(environ["MASTER_PORT"]) + 1
    except (KeyError, ValueError):
        raise UsageError(f"'modelzoo fleet' must be started by torchrun on every host: {_EXAMPLE}") from None
    if local != 1:
        raise UsageError(f"'modelzoo fleet' needs one process per host, not {local}: use --nproc-per-node 1")
    if store is None and master[1] > 65535:
        raise UsageError("torchrun's port is the last one; name another for the store with --store HOST:PORT")
    address = Address(*master) if store is None else parse_address(store)
    return Membership(rank, size, restarts, socket.gethostname(), address, bind or address.host)


def parse_address(text: str) -> Address:
    """Parse ``HOST:PORT``; an IPv6 address has brackets.

    Raises:
        UsageError: it has another form.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise UsageError(f"--store {text!r} must have the form HOST:PORT, for example 10.0.0.1:29501")
    return Address(found["ipv6"] or found["host"], int(found["port"]))

"""Options that ended, and what to do instead: each is refused in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Optional

import msgspec


class Ended(msgspec.Struct, frozen=True):
    """An option of a command, or a variable of the environment that it read.

    Attributes:
        command: ``modelzoo run``; for all below it, ``modelzoo fleet``.
        name: with its dashes if it is an option.
        instead: the end of the error.
    """

    command: str
    name: str
    instead: str


_CLUSTER = "start a Dask scheduler, and a Dask worker on every host (docs/scale.md), and call this once, --scheduler"
ENDED = (
    Ended("modelzoo fleet", "TORCHELASTIC_RUN_ID", f"torchrun starts no fleet any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet", "--store", f"there is no store any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet", "--bind", f"there is no store any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet validate", "--recheck", "validate again with another --shards-dir, and compare the results"),
    Ended(
        "modelzoo load", "--loadgen", "MLPerf LoadGen drives no instances any more; use --scenario, --rate and --slo"
    ),
)


def ended(command: str, words: Iterable[str]) -> Optional[str]:
    """Return the error about the first thing that ended among the words of a command line, or in the environment."""
    given = {word.partition("=")[0] for word in words}
    for each in ENDED:
        if command.startswith(each.command) and (each.name in given or each.name in os.environ):
            return f"{each.name}: {each.instead}"
    return None

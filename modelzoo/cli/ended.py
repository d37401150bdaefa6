"""Options that ended, and what to do instead: each is refused in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable

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
_ONE_AT_A_TIME = "one batch is in the pipeline at a time; --stages times its stages and the whole"
_NO_TRACE = "no traces are written any more; --profiling shows operators, and --stages the times of stages"
_NO_SOAK = "there are no soak tests any more; give a longer --seconds and more --rounds"
_SESSION = "one call is one session: call it again on other days; compare and report take a directory of their results"
ENDED = (
    *(
        Ended(command, name, _SESSION)
        for command in ("modelzoo run", "modelzoo fleet run", "performance.py")
        for name in ("--sessions", "--every")
    ),
    Ended("modelzoo fleet", "TORCHELASTIC_RUN_ID", f"torchrun starts no fleet any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet", "--store", f"there is no store any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet", "--bind", f"there is no store any more: {_CLUSTER} ADDRESS"),
    Ended("modelzoo fleet validate", "--recheck", "validate again with another --shards-dir, and compare the results"),
    *(
        Ended(command, name, instead)
        for command in ("modelzoo run", "modelzoo fleet run", "performance.py")
        for name, instead in (("--in-flight", _ONE_AT_A_TIME), ("--trace", _NO_TRACE))
    ),
    *(Ended(f"modelzoo {command}", "--soak", _NO_SOAK) for command in ("throughput", "fleet throughput")),
    Ended("modelzoo load", "--loadgen", "MLPerf LoadGen drives nothing any more; use --scenario, --rate and --slo"),
)


def ended(command: str, words: Iterable[str]) -> str | None:
    """Return the error about the first thing that ended among the words of a command line, or in the environment."""
    given = {word.partition("=")[0] for word in words}
    for each in ENDED:
        if command.startswith(each.command) and (each.name in given or each.name in os.environ):
            return f"{each.name}: {each.instead}"
    return None

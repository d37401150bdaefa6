"""What the commands that start instances share, ``throughput`` and ``load``."""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

from rich.console import Console

from modelzoo.cli.output import say_where
from modelzoo.errors import UsageError
from modelzoo.machine import cpu, facts
from modelzoo.records.machine import Machine, Topology
from modelzoo.results.store import ResultFile
from modelzoo.views.plots import Plot


def check_setting(args: argparse.Namespace) -> None:
    """Refuse options of a setting that instances cannot have; raises ``UsageError``."""
    if args.threads is not None:
        raise UsageError("--threads follows from the cores of an instance; give --cores-per-instance N instead")
    if args.device != "cpu":
        raise UsageError(f"instances share the cores of this machine; --device {args.device} is not supported")
    if args.include_copies:
        raise UsageError("--include-copies is for accelerators, and instances run on CPUs; leave it out")


def read_host() -> tuple[Machine, Topology]:
    """Return this machine, and the cores that instances may use.

    Raises:
        UsageError: nothing can be timed on it.
    """
    machine, topology = facts.read_machine(), cpu.read_topology()
    if machine.emulator:
        raise UsageError(f"nothing can be timed under {machine.emulator}; run it on the machine itself")
    return machine, topology


_FILES = 3
"""Open files for each instance: its input, its output, and what it prints to stderr."""
_OTHER_FILES = 100
"""Open files besides; a call has about 20."""


def allow_open_files(instances: int) -> None:
    """Raise the limit on this process's open files, if necessary, to that of so many instances at the same time.

    Raises:
        UsageError: the hard limit is lower.
    """
    needed = instances * _FILES + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{instances} instances take {needed} open files, and this process may have {hard}: raise the hard limit "
            "(ulimit -Hn), or give fewer --instances"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def end(named: str | None, stored: ResultFile, plot: Plot | None, out: Console) -> None:
    """Say where the result is, and write the plot and say where that is.

    Args:
        named: the plot's file; ``None`` stands for one beside the result.
        stored: the result.
        plot: the plot; ``None`` if there is nothing to draw.
        out: printed to.

    Raises:
        UsageError: the plot cannot be written.
    """
    say_where(stored, out.print)
    path = Path(named) if named else stored.path.with_suffix(".svg")
    try:
        if plot is not None:
            out.print(f"plot: {plot.write(path)}")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with --plot FILE") from error

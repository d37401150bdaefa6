"""``modelzoo fleet throughput``: how many instances serve most, on many hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from modelzoo.cli.fleet_run import measure_on_all
from modelzoo.cli.sessions import INTERRUPTED
from modelzoo.cli.throughput import throughput
from modelzoo.errors import WorkerError
from modelzoo.version import __version__

LOCAL = ("workload", "weights", "input", "json", "plot", "price", "json_dir", "store", "bind", "soak")
"""Options that may differ between hosts; most of them name files. All others must be the same."""


def throughput_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet throughput`` as one member; return the exit code, as ``fleet run`` does."""
    facts = {"modelzoo": __version__, "workload": Path(args.workload).name}
    given = {name: value for name, value in vars(args).items() if name not in LOCAL and "command" not in name}
    facts.update({name.replace("_", "-"): str(value) for name, value in given.items()})
    return measure_on_all(args, facts, lambda path: _measure(args, path))


def _measure(args: argparse.Namespace, path: Path) -> None:
    """Measure as ``modelzoo throughput`` does.

    Raises:
        WorkerError: nothing could be measured.
    """
    args.json = str(path)
    code = throughput(args)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise WorkerError("no configuration could be measured")

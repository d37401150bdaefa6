"""``modelzoo fleet throughput``: how many instances serve most, on many hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from modelzoo.cli.fleet_run import measure_on_all
from modelzoo.cli.sessions import INTERRUPTED
from modelzoo.cli.throughput import throughput
from modelzoo.errors import WorkerError
from modelzoo.version import __version__

ALIKE = ("option", "instances", "cores_per_instance", "batch", "smt", "slo", "rounds", "precision", "bf16", "mode")
"""Options that must be the same on all hosts."""


def throughput_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet throughput`` as one member; return the exit code, as ``fleet run`` does."""
    facts = {"modelzoo": __version__, "workload": Path(args.workload).name}
    facts.update({name.replace("_", "-"): str(getattr(args, name)) for name in ALIKE})
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

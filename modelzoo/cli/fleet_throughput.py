"""``modelzoo fleet throughput``: how many instances serve most, on many hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from modelzoo.cli.fleet_run import measure_on_all
from modelzoo.cli.sessions import INTERRUPTED
from modelzoo.cli.throughput import throughput
from modelzoo.errors import UsageError
from modelzoo.version import __version__

LOCAL = ("workload", "weights", "input", "json", "plot", "price", "json_dir", "store", "bind", "soak")
"""Options that may differ between hosts; most of them name files. All others must be the same."""


def throughput_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet throughput`` as one member.

    Returns:
        as ``modelzoo throughput`` for this host, and 2 if the host of the store refuses it; on the host of the store
        also 1 if another host did not measure.
    """
    if args.json is not None:
        raise UsageError("--json is for one host; name a directory for the results of all hosts with --json-dir DIR")
    facts = {"modelzoo": __version__, "workload": Path(args.workload).name}
    given = {name: value for name, value in vars(args).items() if name not in LOCAL and "command" not in name}
    facts.update({name.replace("_", "-"): str(value) for name, value in given.items()})
    return measure_on_all(args, facts, lambda path: _measure(args, path))


def _measure(args: argparse.Namespace, path: Path) -> int:
    """Measure as ``modelzoo throughput`` does, and return its exit code.

    Raises:
        ModelzooError: nothing could be measured.
    """
    code = throughput(argparse.Namespace(**{**vars(args), "json": str(path)}))
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code

"""``modelzoo weights``: list, fetch and verify the published checkpoints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from modelzoo.cli.selection import load_workloads
from modelzoo.errors import DamagedWeightsError, ModelzooError, WeightsError
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import Checkpoint, fetch_checkpoint, find_checkpoint, verify_checkpoint
from modelzoo.workload.discovery import STANDARD_WORKLOADS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo weights``."""
    parser.add_argument(
        "action",
        choices=("list", "fetch", "verify"),
        help="list the checkpoints, download missing ones, or verify the checksums of those on this machine",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"a workload's name or directory (default: {', '.join(STANDARD_WORKLOADS)})",
    )
    parser.add_argument(
        "--all", action="store_true", help="fetch the checkpoints of all sizes, not only the default one"
    )
    parser.set_defaults(command_function=weights)


def weights(args: argparse.Namespace) -> int:
    """Run ``modelzoo weights``; returns the exit code, 2 if a checkpoint is damaged."""
    from modelzoo.report import terminal

    workloads = load_workloads(args.workloads)
    if args.action == "fetch":
        _fetch(workloads, every=args.all)
    rows, errors = _table(workloads, verify=args.action == "verify")
    terminal.show_weights(rows, terminal.console())
    for error in errors:
        print(f"modelzoo: error: {error}", file=sys.stderr)
    return 2 if errors else 0


def _fetch(workloads: Sequence[Workload], every: bool) -> None:
    """Download the checkpoints that are not on this machine: those of the default options, or every one."""
    for workload in workloads:
        default = workload.checkpoint(workload.option_values({}))
        for checkpoint in workload.checkpoints() if every else filter(None, [default]):
            if find_checkpoint(checkpoint) is None:
                print(f"fetching {checkpoint.name} ({checkpoint.megabytes} MB)", file=sys.stderr)
                try:
                    fetch_checkpoint(checkpoint)
                except DamagedWeightsError:
                    raise
                except WeightsError as error:
                    hint = "without a network, put it into a directory and name that in MODELZOO_WEIGHTS"
                    raise WeightsError(f"{error}; {hint}") from error


def _table(workloads: Sequence[Workload], verify: bool) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows (workload, checkpoint, megabytes, state, path or source), and an error for each damaged checkpoint."""
    rows: list[tuple[str, ...]] = []
    errors: list[str] = []
    for workload in workloads:
        for checkpoint in workload.checkpoints():
            state, error = _state(checkpoint, verify)
            errors += [error] if error else []
            path = find_checkpoint(checkpoint) or checkpoint.source
            rows.append((workload.name, checkpoint.name, str(checkpoint.megabytes), state, str(path)))
    return rows, errors


def _state(checkpoint: Checkpoint, verify: bool) -> tuple[str, str]:
    """The state of a checkpoint on this machine, and the error if it is damaged."""
    path = find_checkpoint(checkpoint)
    if path is None:
        return "not here", ""
    if not verify:
        return "here", ""
    try:
        return f"verified, sha256 {verify_checkpoint(checkpoint, path)[:16]}…", ""
    except ModelzooError as error:
        return "DAMAGED", str(error)

"""``modelzoo weights``: list, fetch and verify the published checkpoints; convert files to safetensors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli.output import print_document
from modelzoo.cli.selection import load_workloads
from modelzoo.errors import DamagedWeightsError, ModelzooError, UsageError, WeightsError
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import (
    SHA256_DIGITS,
    Checkpoint,
    Checksum,
    fetch_checkpoint,
    find_checkpoint,
    verify_checkpoint,
)
from modelzoo.workload.discovery import STANDARD_WORKLOADS
from modelzoo.workload.state import convert_weights

if TYPE_CHECKING:
    from modelzoo.document import Block


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo weights``."""
    parser.add_argument(
        "action",
        choices=("list", "fetch", "verify", "convert"),
        help="list the checkpoints, download missing ones, verify the checksums of those on this machine, or convert a "
        "pickled checkpoint to safetensors, which every release of torch reads safely",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD|FILE",
        help=f"workloads, by name or directory (default: {', '.join(STANDARD_WORKLOADS)}); for convert, one file",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="with convert: write FILE, and replace it if it exists (default: a new file beside the other one)",
    )
    parser.add_argument(
        "--all", action="store_true", help="fetch the checkpoints of all sizes, not only the default one"
    )
    parser.set_defaults(command_function=weights)


def weights(args: argparse.Namespace) -> int:
    """Run ``modelzoo weights``; returns the exit code, 2 if a checkpoint is damaged."""
    if args.action == "convert":
        return _convert(args)
    if args.output is not None:
        raise UsageError(f"-o belongs to 'modelzoo weights convert', not to {args.action}")
    workloads = load_workloads(args.workloads)
    if args.action == "fetch":
        _fetch(workloads, every=args.all)
    rows, errors = _table(workloads, verify=args.action == "verify")
    print_document(document(rows))
    for error in errors:
        print(f"modelzoo: error: {error}", file=sys.stderr)
    return 2 if errors else 0


def document(rows: Sequence[tuple[str, str, str, str, str]]) -> list[Block]:
    """Return the checkpoints: workload, name, megabytes, state and place of each."""
    from modelzoo.document import Column, Table

    titles = ("workload", "checkpoint", "MB", "state", "place")
    columns = (Column(title, tuple(row[i] for row in rows), is_number=i == 2) for i, title in enumerate(titles))
    return [Table("Checkpoints", tuple(columns))]


def _convert(args: argparse.Namespace) -> int:
    if len(args.workloads) != 1:
        raise UsageError("give one checkpoint: modelzoo weights convert FILE")
    written = convert_weights(
        Path(args.workloads[0]).expanduser(), None if args.output is None else Path(args.output).expanduser()
    )
    print(f"wrote {written.path}: {written.tensors} tensors, {written.bytes / 1e6:.1f} MB", file=sys.stderr)
    return 0


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


def _table(workloads: Sequence[Workload], verify: bool) -> tuple[list[tuple[str, str, str, str, str]], list[str]]:
    """Rows (workload, checkpoint, megabytes, state, path or source), and an error for each damaged checkpoint."""
    rows: list[tuple[str, str, str, str, str]] = []
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
        checksum = verify_checkpoint(checkpoint, path)
    except ModelzooError as error:
        return "DAMAGED", str(error)
    return f"{_extent(checksum)}, sha256 {checksum.sha256[:16]}…", ""


def _extent(checksum: Checksum) -> str:
    """How much of a checksum was compared with a published one."""
    digits = len(checksum.published)
    if digits == SHA256_DIGITS:
        return "verified"
    return f"verified in part ({digits} of {SHA256_DIGITS} digits)" if digits else "not verified (none is published)"

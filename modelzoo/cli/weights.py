"""``modelzoo weights``: list, fetch, verify and pin the published checkpoints; convert files to safetensors."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli.output import print_document, print_lines, tell
from modelzoo.cli.selection import load_workloads
from modelzoo.errors import DamagedWeightsError, ModelzooError, UsageError, WeightsError
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import (
    Checkpoint,
    Checksum,
    fetch_checkpoint,
    find_checkpoint,
    pin_checkpoint,
    verify_checkpoint,
)
from modelzoo.workload.discovery import STANDARD_WORKLOADS, ZOO
from modelzoo.workload.state import convert_weights

if TYPE_CHECKING:
    from modelzoo.document import Block

INCOMPLETE = (
    "A partial digest detects damage, but not a forgery; without a digest, nothing shows that a file is the published "
    "one. With a network, 'modelzoo weights pin' prints the complete digests, to be declared in workload.py."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo weights``."""
    parser.add_argument(
        "action",
        choices=("list", "fetch", "verify", "pin", "convert"),
        help="list the checkpoints, download missing ones, verify the checksums of those on this machine, download "
        "each again and print its commit and SHA-256, or convert a pickled checkpoint to safetensors, which every "
        "release of torch reads safely",
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
        "--all", action="store_true", help="fetch or pin the checkpoints of all sizes, not only the default one"
    )
    parser.set_defaults(command_function=weights)


def weights(args: argparse.Namespace) -> int:
    """Run ``modelzoo weights``; returns the exit code, 2 if a checkpoint is damaged."""
    if args.action == "convert":
        return _convert(args)
    if args.output is not None:
        raise UsageError(f"-o belongs to 'modelzoo weights convert', not to {args.action}")
    workloads = load_workloads(args.workloads)
    if args.action == "pin":
        return _pin(workloads, every=args.all)
    if args.action == "fetch":
        _fetch(workloads, every=args.all)
    rows, errors, is_incomplete = _table(workloads, verify=args.action == "verify")
    print_document(document(rows, is_incomplete))
    for error in errors:
        tell(f"modelzoo: error: {error}")
    return 2 if errors else 0


def document(rows: Sequence[tuple[str, str, str, str, str]], is_incomplete: bool = False) -> list[Block]:
    """Return the checkpoints: workload, name, megabytes, state and place of each.

    Args:
        is_incomplete: whether some were verified in part only, or not at all.
    """
    from modelzoo.document import Column, Table

    titles = ("workload", "checkpoint", "MB", "state", "place")
    columns = (Column(title, tuple(row[i] for row in rows), is_number=i == 2) for i, title in enumerate(titles))
    return [Table("Checkpoints", tuple(columns), INCOMPLETE if is_incomplete else "")]


def _convert(args: argparse.Namespace) -> int:
    if len(args.workloads) != 1:
        raise UsageError("give one checkpoint: modelzoo weights convert FILE")
    path, tensors = convert_weights(
        Path(args.workloads[0]).expanduser(), None if args.output is None else Path(args.output).expanduser()
    )
    tell(f"wrote {path}: {tensors} tensors, {path.stat().st_size / 1e6:.1f} MB")
    return 0


def _checkpoints(workload: Workload, every: bool) -> list[Checkpoint]:
    """The checkpoint of the default options, or every one."""
    default = workload.checkpoint(workload.option_values({}))
    return workload.checkpoints() if every else [default] if default is not None else []


def _fetch(workloads: Sequence[Workload], every: bool) -> None:
    """Download the checkpoints that are not on this machine: those of the default options, or every one."""
    for workload in workloads:
        for checkpoint in _checkpoints(workload, every):
            if find_checkpoint(checkpoint) is None:
                tell(f"fetching {checkpoint.name} ({checkpoint.size})")
                fetch_checkpoint(checkpoint)


def _pin(workloads: Sequence[Workload], every: bool) -> int:
    """Print, for each checkpoint, the arguments of its ``Checkpoint`` that pin what the hub has now."""
    for workload in workloads:
        for checkpoint in _checkpoints(workload, every):
            tell(f"downloading {checkpoint.name} ({checkpoint.size})")
            try:
                pinned = pin_checkpoint(checkpoint)
            except DamagedWeightsError:
                raise
            except WeightsError as error:
                raise WeightsError(f"{error}; pin it on a machine that can reach the hub") from error
            values = (("commit", pinned.commit), ("sha256", pinned.sha256))
            place = workload.name if workload.directory == ZOO else workload.directory / "workload.py"
            print_lines([f"# {place}: {checkpoint.name}", *(f'{name}="{value}",' for name, value in values if value)])
    return 0


def _table(workloads: Sequence[Workload], verify: bool) -> tuple[list[tuple[str, str, str, str, str]], list[str], bool]:
    """Rows (workload, checkpoint, megabytes, state, path or source), an error for each damaged checkpoint, and whether
    any of the others was verified in part only, or not at all."""
    rows: list[tuple[str, str, str, str, str]] = []
    errors: list[str] = []
    is_incomplete = False
    for workload in workloads:
        for checkpoint in workload.checkpoints():
            path = find_checkpoint(checkpoint)
            state = "not here" if path is None else "here"
            if path is not None and verify:
                try:
                    checksum = verify_checkpoint(checkpoint, path)
                except ModelzooError as error:
                    errors.append(str(error))
                    state = "DAMAGED"
                else:
                    is_incomplete |= checksum.verification != "full"
                    state = f"{_extent(checksum)}, sha256 {checksum.sha256[:16]}…"
            rows.append(
                (workload.name, checkpoint.name, str(checkpoint.megabytes or ""), state, str(path or checkpoint.source))
            )
    return rows, errors, is_incomplete


def _extent(checksum: Checksum) -> str:
    """How much of a checksum was compared with the declared one."""
    if checksum.verification == "full":
        return "verified"
    if checksum.verification == "partial":
        return f"partial digest ({len(checksum.published)} hex digits)"
    return "no digest" + (" (unchanged since its download)" if checksum.is_as_downloaded else "")

"""What there is, and what of it is on this machine.

``modelzoo list``: the workloads, the engines and the optional packages; with ``--schema``, the format of results.
``modelzoo weights``: list, fetch, verify and pin the published checkpoints; convert files to safetensors.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo import DISTRIBUTION
from modelzoo.cli.files import print_document, print_lines, tell
from modelzoo.cli.selection import load_workloads
from modelzoo.engines import ENGINES, INSTALL
from modelzoo.errors import DamagedWeightsError, ModelzooError, UsageError, WeightsError
from modelzoo.machine.installation import installed_version
from modelzoo.workload import Workload, checkpoints, discovery
from modelzoo.workload.state import convert_weights

if TYPE_CHECKING:
    from modelzoo.document import Block

MISSING = "not installed"
EXTRAS = {
    "distributed": "modelzoo fleet",
    "nvidia-ml-py": "clocks, power and temperature of NVIDIA GPUs, --lock-clocks",
    "shtab": "modelzoo --print-completion",
    "timm": "workloads named timm:NAME",
}
"""Optional packages, and what each is for."""


def list_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo list``; torch is not imported, unless the models of a library are asked for."""
    if args.schema:
        from modelzoo.results.schema import schema_text

        print_lines(schema_text().splitlines())
        return 0
    if args.library is not None:
        print_lines(discovery.library_models(args.library))
        return 0
    print_document(
        [
            _table(
                "Workloads (any other directory with a workload.py works, too; so does LIBRARY:NAME)",
                ("workload", "model", "default input", "weights", "accuracy check"),
                _workloads(),
            ),
            _table("Engines, for --engine", ("engine", "version", "to install"), _engines()),
            _table("Optional packages", ("package", "version", "for", "to install"), _extras()),
        ]
    )
    return 0


def _table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Block:
    from modelzoo.document import Column, Table

    columns = (Column(title, tuple(row[i] for row in rows), is_number=title == "MB") for i, title in enumerate(titles))
    return Table(caption, tuple(columns), note)


def _workloads() -> list[tuple[str, ...]]:
    examples = sorted(discovery.CHECKOUT.glob("examples/*/workload.py")) if discovery.is_checkout() else []
    names = [*discovery.available_workloads(), *(str(path.parent.relative_to(discovery.CHECKOUT)) for path in examples)]
    return [_workload(name) for name in names]


def _workload(name: str) -> tuple[str, ...]:
    """What to type, what it is, its default input, whether its weights are here, and whether it can be judged."""
    try:
        work = discovery.load_workload(discovery.workloads_directory() / name)
    except UsageError as error:
        return name, str(error), "", "", ""
    inputs = work.defaults or f"batch {work.batch}"
    return name, work.title, inputs, _weights(work), "no" if work.judge is None else "yes"


def _weights(work: Workload) -> str:
    checkpoint = work.checkpoint(work.option_values({}))
    if checkpoint is None:
        return "random only"
    try:
        return "here" if checkpoints.find_checkpoint(checkpoint) else f"not here ({checkpoint.size})"
    except ModuleNotFoundError as error:
        return f"unknown: {error.name} is not installed"


def _engines() -> list[tuple[str, ...]]:
    from modelzoo.engines import jittor as environment

    found = {name: installed_version(name) for name in ENGINES}
    found["jittor"] = environment.version()  # in an environment of its own
    install = {**INSTALL, "jittor": environment.how_to_install()}
    if not discovery.is_checkout():
        install["torch"] = f"pip install '{DISTRIBUTION}[torch]'"
    return [(name, version or MISSING, "" if version else install[name]) for name, version in found.items()]


def _extras() -> list[tuple[str, ...]]:
    return [
        (package, version or MISSING, purpose, "" if version else f"pip install {package}")
        for package, purpose in EXTRAS.items()
        for version in (installed_version(package),)
    ]


INCOMPLETE = (
    "A partial digest detects damage, but not a forgery; without a digest, nothing shows that a file is the published "
    "one. With a network, 'modelzoo weights pin' prints the complete digests, to be declared in workload.py."
)


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
        for workload in workloads:
            for checkpoint in _checkpoints(workload, args.all):
                if checkpoints.find_checkpoint(checkpoint) is None:
                    tell(f"fetching {checkpoint.name} ({checkpoint.size})")
                    checkpoints.fetch_checkpoint(checkpoint)
    rows, errors, is_incomplete = _states(workloads, verify=args.action == "verify")
    print_document(document(rows, is_incomplete))
    for error in errors:
        tell(f"modelzoo: error: {error}")
    return 2 if errors else 0


def document(rows: Sequence[tuple[str, str, str, str, str]], is_incomplete: bool = False) -> list[Block]:
    """Return the checkpoints: workload, name, megabytes, state and place of each.

    Args:
        is_incomplete: whether some were verified in part only, or not at all.
    """
    titles = ("workload", "checkpoint", "MB", "state", "place")
    return [_table("Checkpoints", titles, rows, INCOMPLETE if is_incomplete else "")]


def _convert(args: argparse.Namespace) -> int:
    if len(args.workloads) != 1:
        raise UsageError("give one checkpoint: modelzoo weights convert FILE")
    path, tensors = convert_weights(
        Path(args.workloads[0]).expanduser(), None if args.output is None else Path(args.output).expanduser()
    )
    tell(f"wrote {path}: {tensors} tensors, {path.stat().st_size / 1e6:.1f} MB")
    return 0


def _checkpoints(workload: Workload, every: bool) -> list[checkpoints.Checkpoint]:
    """The checkpoint of the default options, or every one."""
    default = workload.checkpoint(workload.option_values({}))
    return workload.checkpoints() if every else [default] if default is not None else []


def _pin(workloads: Sequence[Workload], every: bool) -> int:
    """Print, for each checkpoint, the arguments of its ``Checkpoint`` that pin what the hub has now."""
    for workload in workloads:
        for checkpoint in _checkpoints(workload, every):
            tell(f"downloading {checkpoint.name} ({checkpoint.size})")
            try:
                pinned = checkpoints.pin_checkpoint(checkpoint)
            except DamagedWeightsError:
                raise
            except WeightsError as error:
                raise WeightsError(f"{error}; pin it on a machine that can reach the hub") from error
            values = (("commit", pinned.commit), ("sha256", pinned.sha256))
            place = workload.name if workload.directory == discovery.ZOO else workload.directory / "workload.py"
            print_lines([f"# {place}: {checkpoint.name}", *(f'{name}="{value}",' for name, value in values if value)])
    return 0


def _states(
    workloads: Sequence[Workload], verify: bool
) -> tuple[list[tuple[str, str, str, str, str]], list[str], bool]:
    """Rows (workload, checkpoint, megabytes, state, path or source), an error for each damaged checkpoint, and whether
    any of the others was verified in part only, or not at all."""
    rows: list[tuple[str, str, str, str, str]] = []
    errors: list[str] = []
    is_incomplete = False
    for workload in workloads:
        for checkpoint in workload.checkpoints():
            path = checkpoints.find_checkpoint(checkpoint)
            state = "not here" if path is None else "here"
            if path is not None and verify:
                try:
                    checksum = checkpoints.verify_checkpoint(checkpoint, path)
                except ModelzooError as error:
                    errors.append(str(error))
                    state = "DAMAGED"
                else:
                    is_incomplete |= checksum.verification != "full"
                    state = f"{_extent(checksum, checkpoint.digest)}, sha256 {checksum.sha256[:16]}…"
            rows.append(
                (workload.name, checkpoint.name, str(checkpoint.megabytes or ""), state, str(path or checkpoint.source))
            )
    return rows, errors, is_incomplete


def _extent(checksum: checkpoints.Checksum, declared: str) -> str:
    """How much of a checksum was compared with the declared one."""
    if checksum.verification == "full":
        return "verified"
    if checksum.verification == "partial":
        return f"partial digest ({len(declared)} hex digits)"
    return "no digest" + (" (unchanged since its download)" if checksum.is_as_downloaded else "")

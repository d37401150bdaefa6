"""``modelzoo list``: the workloads, the engines and the optional packages, and which of them are on this machine.

With ``--schema``, the format of results.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelzoo.cli.output import print_document, print_lines
from modelzoo.engines import ENGINES, INSTALL
from modelzoo.errors import UsageError
from modelzoo.machine.installation import installed_version
from modelzoo.version import DISTRIBUTION
from modelzoo.workload import Workload
from modelzoo.workload.checkpoints import find_checkpoint
from modelzoo.workload.discovery import (
    CHECKOUT,
    available_workloads,
    is_checkout,
    library_models,
    load_workload,
    workloads_directory,
)

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo list``."""
    parser.add_argument("library", nargs="?", metavar="LIBRARY:", help="print the models of torchvision:, timm: or hf:")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of stored results instead")
    parser.set_defaults(command_function=list_command)


def list_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo list``; torch is not imported, unless the models of a library are asked for."""
    if args.schema:
        from modelzoo.results.schema import schema_text

        print_lines(schema_text().splitlines())
        return 0
    if args.library is not None:
        print_lines(library_models(args.library))
        return 0
    print_document(document(_workloads(), _engines(), _extras()))
    return 0


def document(
    workloads: Sequence[tuple[str, ...]], engines: Sequence[tuple[str, ...]], extras: Sequence[tuple[str, ...]]
) -> list[Block]:
    """Return the three tables, from their rows."""
    return [
        _table(
            "Workloads (any other directory with a workload.py works, too; so does LIBRARY:NAME)",
            _WORKLOAD_TITLES,
            workloads,
        ),
        _table("Engines, for --engine", ("engine", "version", "to install"), engines),
        _table("Optional packages", ("package", "version", "for", "to install"), extras),
    ]


_WORKLOAD_TITLES = ("workload", "model", "default input", "weights", "accuracy check")


def _table(caption: str, titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Block:
    from modelzoo.document import Column, Table

    columns = (Column(title, tuple(row[i] for row in rows)) for i, title in enumerate(titles))
    return Table(caption, tuple(columns))


def _workloads() -> list[tuple[str, ...]]:
    examples = sorted(CHECKOUT.glob("examples/*/workload.py")) if is_checkout() else []
    names = [*available_workloads(), *(str(path.parent.relative_to(CHECKOUT)) for path in examples)]
    return [_workload(name) for name in names]


def _workload(name: str) -> tuple[str, ...]:
    """What to type, what it is, its default input, whether its weights are here, and whether it can be judged."""
    try:
        work = load_workload(workloads_directory() / name)
    except UsageError as error:
        return name, str(error), "", "", ""
    inputs = work.defaults or f"batch {work.batch}"
    return name, work.title, inputs, _weights(work), "no" if work.judge is None else "yes"


def _weights(work: Workload) -> str:
    checkpoint = work.checkpoint(work.option_values({}))
    if checkpoint is None:
        return "random only"
    try:
        return "here" if find_checkpoint(checkpoint) else f"not here ({checkpoint.size})"
    except ModuleNotFoundError as error:
        return f"unknown: {error.name} is not installed"


def _engines() -> list[tuple[str, ...]]:
    from modelzoo.engines import jittor as environment

    found = {name: installed_version(name) for name in ENGINES}
    found["jittor"] = environment.version()  # in an environment of its own
    install = {**INSTALL, "jittor": environment.how_to_install()}
    if not is_checkout():
        install["torch"] = f"pip install '{DISTRIBUTION}[torch]'"
    return [(name, version or MISSING, "" if version else install[name]) for name, version in found.items()]


def _extras() -> list[tuple[str, ...]]:
    found = {package: installed_version(package) for package in EXTRAS}
    return [
        (package, found[package] or MISSING, purpose, "" if found[package] else f"pip install {package}")
        for package, purpose in EXTRAS.items()
    ]

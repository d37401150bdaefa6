"""The options that commands share, and what they are parsed to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from modelzoo.cli.parser import duration, fraction, switch
from modelzoo.errors import UsageError
from modelzoo.plan import MARGIN, Effort, Plan
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import fields
from modelzoo.workload import Workload


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the result and its file."""
    parser.add_argument("--label", default="", metavar="TEXT", help="name of the result in report and compare")
    parser.add_argument(
        *("-o", "--output", "--json"),
        metavar="FILE",
        help="write the result to FILE (default: results/TIME.json); - prints it on stdout as well, and the lines for "
        "scripts on stderr",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add the option that only prints the plan."""
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be measured and how long it takes, and start nothing"
    )


def add_warmup(group: argparse._ArgumentGroup) -> None:
    """Add the option that fixes the length of the warm-up."""
    group.add_argument("--warmup", type=int, metavar="N", help="warm-up iterations (default: until timings stabilize)")


def add_no_audit(group: argparse._ArgumentGroup) -> None:
    """Add the option that leaves the kernels unverified."""
    group.add_argument("--no-audit", action="store_true", help="skip the audit, which shows which kernels ran")


def add_effort(group: argparse._ArgumentGroup, budget: str) -> None:
    """Add the options that decide how long and how often to measure.

    Args:
        group: receives them.
        budget: the default of ``--budget``, in words.
    """
    group.add_argument(
        "--margin",
        type=fraction,
        default=MARGIN,
        metavar="M",
        help=f"stop when the 95 %% interval of each time is within ± this: 5%% or 0.05 (default {MARGIN:.0%}%)",
    )
    group.add_argument(
        "--budget",
        type=duration,
        metavar="TIME",
        help=f"take at most this long, accuracy checks included: 90s, 10m, 2h (default: {budget})",
    )
    group.add_argument(
        "--processes", type=int, metavar="N", help="fresh processes per setting (default: as many as --margin requires)"
    )
    group.add_argument(
        "--iterations", type=int, metavar="N", help="steady-state samples per process (default: see --max-seconds)"
    )
    add_warmup(group)
    group.add_argument(
        "--max-seconds",
        type=float,
        metavar="SECONDS",
        help="steady-state sampling per process (default: chosen from how much samples and processes differ)",
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how long to measure, and what is recorded besides the time."""
    group = parser.add_argument_group("measurement")
    add_effort(group, "60 s per workload and setting, without accuracy checks")
    group.add_argument(
        "--lock-clocks",
        type=int,
        metavar="MHZ",
        help="lock the clocks of the NVIDIA GPUs while the call runs, and set them back afterwards (needs root)",
    )
    text = fields()["stages"].help
    group.add_argument("--stages", type=switch, nargs="?", const=True, default=False, metavar="on|off", help=text)
    group.add_argument("--profiling", action="store_true", help="print operator tables, profiled after the timing")
    add_no_audit(group)
    group.add_argument(
        "--strict",
        action="store_true",
        help="exit with code 1 unless the precision is verified and no reference kernel ran",
    )


def add_validity(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide what predictions are judged on, and by which thresholds."""
    group = parser.add_argument_group("accuracy check")
    group.add_argument(
        "--data",
        metavar="PATH",
        help="ImageNet-style folder, COCO instances_*.json or SQuAD JSON (default: a small built-in set)",
    )
    group.add_argument("--limit", type=int, metavar="N", help="check at most N items, sampled with --seed")
    group.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out pictures, questions and passages that cannot be judged, and say how many (default: refuse)",
    )
    group.add_argument(
        "--tolerance",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override a threshold: accuracy=0.98; may be repeated",
    )
    group.add_argument(
        "--artifacts",
        metavar="DIR",
        help="directory for images, tables and plots (default: output/ in the workload's directory; in "
        "MODELZOO_RESULTS if that is set, and in results/ for the workloads of an installed package)",
    )
    group.add_argument(
        "--explain", action="store_true", help="report the error of every layer, as a CSV file and a plot"
    )


class Judging(msgspec.Struct, frozen=True):
    """How predictions are judged, the directory that images and plots are written to, and ``--timeout``."""

    request: ValidityRequest
    output: Path
    timeout: float | None


def make_judging(args: argparse.Namespace, workload: Workload) -> Judging:
    """Return what ``args`` ask for; the output directory exists afterwards.

    Raises:
        UsageError: a value is out of range, a path does not exist or cannot be written to.
    """
    from modelzoo.validity.checks import check_tolerances

    tolerance = tolerances(args.tolerance)
    check_tolerances(tolerance)
    if args.data is not None and not Path(args.data).exists():
        raise UsageError(f"--data {args.data} does not exist")
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {args.limit}")
    output = _artifacts(args.artifacts, workload)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {output}: {error.strerror}; name another directory with --artifacts DIR"
        ) from error
    request = ValidityRequest(
        data=None if args.data is None else str(Path(args.data).absolute()),
        limit=args.limit,
        tolerance=tolerance,
        explain=args.explain,
        skip_bad=args.skip_bad,
    )
    return Judging(request, output, args.timeout)


def tolerances(given: Sequence[str]) -> dict[str, float]:
    """Return ``NAME=VALUE`` options as numbers; raises ``UsageError``."""
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--tolerance {text!r} must have the form NAME=NUMBER")
    return values


def _artifacts(named: str | None, workload: Workload) -> Path:
    """``--artifacts``, else the workload's own directory, or beside the results if those have one of their own.

    That is so if MODELZOO_RESULTS is set, and for a workload of an installed package.
    """
    from modelzoo.cli.output import results_directory
    from modelzoo.workload.discovery import PACKAGE

    if named:
        return Path(named).absolute() / workload.name
    if os.environ.get("MODELZOO_RESULTS") or workload.directory.is_relative_to(PACKAGE):
        return results_directory().absolute() / "output" / workload.name
    return workload.directory / "output"


def make_plan(args: argparse.Namespace) -> Plan:
    """Return how each process measures; raises ``UsageError``."""
    return Plan(args.warmup, args.iterations, args.max_seconds)


def make_effort(args: argparse.Namespace) -> Effort:
    """Return how many processes may be spent, and on what precision; raises ``UsageError``."""
    return Effort(args.processes, args.margin, args.budget)

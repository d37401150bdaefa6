"""``modelzoo check``: is one build slower, or wrong, compared with another one? Both are measured here, interleaved."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from modelzoo.cli import options, setting_options
from modelzoo.cli.compare import FORMATS, add_format, allowances, fail_on, rendered
from modelzoo.cli.input_files import path_text
from modelzoo.cli.output import (
    SUFFIXES,
    check_directory,
    deliver,
    ended_early,
    format_of,
    new_result,
    output_file,
    result_path,
    say_where,
    stored_code,
    tell,
    write_reproducers,
)
from modelzoo.cli.parser import Parser
from modelzoo.cli.run import show_plan
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.session import InterruptedSessionError, measure_session
from modelzoo.errors import UsageError

if TYPE_CHECKING:
    from modelzoo.comparison.compare import Comparison, Gate
    from modelzoo.document import Block
    from modelzoo.records.run import Result
    from modelzoo.results.store import ResultFile

NAMES = ("base", "head")
ESSENTIAL = (
    *("--base", "--head", "--base-env", "--head-env", "--bf16", "--mode", "--batch", "--budget", "--validate"),
    *("--fail-on", "--allow", "--format", "--details", "--dry-run", "--output"),
)
"""Options that most calls need, which ``--help`` shows."""
FAIL_ON = ("slower", "invalid", "wrong")
"""What fails a check if nothing else is named."""
SECONDS_PER_WORKLOAD, MOST_SECONDS = 300.0, 900.0
"""The default budget."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo check``."""
    setting_options.add_workloads(parser)
    group = parser.add_argument_group(
        "builds",
        "Each is an interpreter, or 'default' for the one that runs the suite; or it is a wheel, a requirement such as "
        "torch==2.13.0, or a requirement file, several if the option is repeated, of which uv makes an environment.",
    )
    for name, what in (("base", "the baseline"), ("head", "what is compared with it")):
        group.add_argument(
            f"--{name}",
            action="append",
            required=True,
            metavar="BUILD",
            help=what,
        )
    for name in NAMES:
        group.add_argument(
            f"--{name}-env",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"set an environment variable for the processes of --{name}; may be repeated",
        )
    setting_options.add_setting(parser)
    measurement = parser.add_argument_group("measurement")
    options.add_effort(
        measurement, "5m per workload, 15m at most; environments that are still to be made are not part of it"
    )
    options.add_no_audit(measurement)
    options.add_validity(parser)
    parser.add_argument("--validate", action="store_true", help="check the accuracy of both sides as well")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="WHAT",
        help="compare rows in spite of this, see 'modelzoo compare --help'; may be repeated",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with code 1 if a row meets this condition: slower:3%%, ambiguous, not-comparable, or what --allow "
        f"can name; may be repeated (default: {','.join(FAIL_ON)})",
    )
    parser.add_argument("--details", action="store_true", help="list every kernel and every difference")
    add_format(parser, "markdown with -o, and terminal without")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to FILE instead of stdout (-)")
    parser.add_argument("--json", metavar="FILE", help="write the result to FILE (default: results/TIME.json)")
    parser.add_argument("--label", default="", metavar="TEXT", help="name of the result in report and compare")
    options.add_dry_run(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(
        command_function=check_command,
        **dict.fromkeys(("precision", "baseline", "lock_clocks")),
        vary=[],
        setting=[],
        profiling=False,
        needs_all=True,
    )


def check_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo check``.

    Returns:
        0 if no row meets a condition of ``--fail-on``, 1 if one does, 2 if nothing could be compared or a process
        failed, 130 if the user interrupted it.

    Raises:
        ModelzooError: an option is not valid, or an environment cannot be made; nothing has been measured.
    """
    from modelzoo.comparison.compare import compare_interleaved, gate
    from modelzoo.comparison.model import StoredResult
    from modelzoo.measure import builds
    from modelzoo.views.check import document

    target = output_file(args.output)
    if target is not None:
        check_directory(target)
        args.format = args.format or SUFFIXES.get(target.suffix, "markdown")
    args.format = format_of(args.format, target, FORMATS)
    conditions, allowed = fail_on(args.fail_on or FAIL_ON, "latency"), allowances(args.allow)
    for name in ("python", "image"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: name the two sides with --base and --head")
    plain = select_settings(args, "fp32")  # before minutes are spent on environments
    sides = tuple(builds.parse_build(f"--{name}", getattr(args, name), getattr(args, f"{name}_env")) for name in NAMES)
    base, head = sides
    if args.budget is None and args.processes is None:
        args.budget = min(MOST_SECONDS, SECONDS_PER_WORKLOAD * len(plain))
    if args.dry_run:
        return show_plan(_both(plain, base.interpreter, head.interpreter), args)
    jobs = _both(plain, *builds.interpreters(base, head, tell))
    stored, interrupted = _measured(jobs, args)
    found = compare_interleaved(StoredResult(path_text(stored.path), stored.result), NAMES, allowed)
    judged, titles = gate(found, conditions), (base.title, head.title)

    def page(found: Comparison, judged: Gate) -> list[Block]:
        return document(stored.result, found, judged, titles, details=args.details)

    try:
        deliver(rendered([(found, judged)], args.format, page, target), target)
    finally:
        write_reproducers(stored.path, stored.result, tell)
        say_where(stored, tell)
        code = stored_code(stored, _exit_code(stored.result, judged))
    return ended_early(stored, len(stored.result.runs), "runs") if interrupted else code


def _both(plain: Jobs, base: str | None, head: str | None) -> Jobs:
    """Each workload with two settings, of the baseline and of the other side."""
    own = [None if python == sys.executable else python for python in (base, head)]
    return [(work, tuple(setting.replace(python=python) for python in own)) for work, (setting,) in plain]


def _measured(jobs: Jobs, args: argparse.Namespace) -> tuple[ResultFile, bool]:
    """Measure both sides; return the stored result, and whether the user interrupted it."""
    from modelzoo.document import terminal
    from modelzoo.results.store import ResultFile
    from modelzoo.views.progress import LiveProgress

    result = new_result(jobs, name=args.label)
    stored = ResultFile(result_path(args.json, result.created), result)
    with LiveProgress(terminal.console(), stored.result) as progress:
        try:
            measure_session(jobs, args, stored, progress)
        except InterruptedSessionError:
            return stored, True
    return stored, False


def _exit_code(result: Result, judged: Gate) -> int:
    if any(judged.failures):
        return 1
    return 2 if judged.exit_code or any(run.error for run in result.runs) else 0

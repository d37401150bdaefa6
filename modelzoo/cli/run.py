"""``modelzoo run``: time workloads, and judge their predictions with ``--validate``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelzoo.cli import options, setting_options
from modelzoo.cli.output import (
    add_details,
    ended_early,
    new_result,
    print_document,
    print_result,
    result_lines,
    result_path,
    say_where,
    stored_code,
    tell,
    write_reproducers,
)
from modelzoo.cli.parser import Parser
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.session import InterruptedSessionError, measure_session, planned

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.records.run import Result
    from modelzoo.results.store import ResultFile
    from modelzoo.results.summary import SummaryRow


ESSENTIAL = (
    *("--precision", "--bf16", "--fp16", "--mode", "--engine", "--batch", "--threads", "--vary", "--margin"),
    *("--budget", "--validate", "--strict", "--details", "--dry-run", "--output"),
)
"""Options that most calls need, which ``--help`` shows. Those that a command does not have are passed over."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo run``."""
    add_measurement(parser)
    options.add_output(parser)
    options.add_dry_run(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=run)


def add_measurement(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is measured, and how; ``modelzoo fleet run`` has the same."""
    setting_options.add_workloads(parser, "fp32,bf16, but fp32 with --vary and --setting")
    setting_options.add_setting(parser)
    setting_options.add_comparison(parser)
    options.add_plan(parser)
    options.add_validity(parser)
    add_details(parser)
    parser.add_argument("--validate", action="store_true", help="check the accuracy of each setting as well")


def run(args: argparse.Namespace) -> int:
    """Run ``modelzoo run``; return the exit code."""
    return run_settings(select_settings(args, "fp32,bf16"), args)


def run_settings(jobs: Jobs, args: argparse.Namespace) -> int:
    """Time every setting of ``jobs``, store each run as it ends, and print the table and the ``[TARGET]`` lines.

    Returns:
        0, or 1 if ``--strict`` is not satisfied or predictions are not valid; 2 if the command line was invalid, a
        run failed, the result could not be written or the predictions could not be judged; 130 if the user interrupted
        it.
    """
    from modelzoo.document import terminal

    if args.dry_run:
        return show_plan(jobs, args)
    return _measured(jobs, args, terminal.console())


def show_plan(jobs: Jobs, args: argparse.Namespace) -> int:
    """Print what the call would measure; nothing is started, and no weights are needed."""
    from modelzoo.machine.facts import read_machine
    from modelzoo.measure import schedule
    from modelzoo.views import plan

    machine = read_machine()
    requests, effort = planned(jobs, args, machine)
    budget = schedule.budget(requests, effort)
    print_document(plan.document(new_result(jobs), machine, effort, budget, validates=args.validate))
    return 0


def _measured(jobs: Jobs, args: argparse.Namespace, out: Console) -> int:
    """Measure, store and show the result; return the exit code."""
    from modelzoo.results import summary
    from modelzoo.results.store import ResultFile
    from modelzoo.views.progress import LiveProgress

    result = new_result(jobs, args.label)
    # Writing the file now shows whether it can be written, not after minutes.
    stored = ResultFile(result_path(args.output, result.created), result)
    interrupted = False
    with LiveProgress(out, stored.result) as progress:
        try:
            measure_session(jobs, args, stored, progress)
        except InterruptedSessionError:
            interrupted = True
    rows = summary.rows(stored.result)
    failed = stored.result.only_error()
    if failed is not None and not interrupted:
        # Everything failed for the same reason: print it once instead of an empty table.
        tell(f"modelzoo: error: {failed.error}")
        return 2
    _show(stored, rows, out, args)
    code = stored_code(stored, exit_code(stored.result, rows, args.strict))
    return ended_early(stored, len(stored.result.runs), "runs") if interrupted else code


def _show(stored: ResultFile, rows: Sequence[SummaryRow], out: Console, args: argparse.Namespace) -> None:
    from modelzoo.document import terminal
    from modelzoo.views import run as view
    from modelzoo.views.plots import roofline

    blocks = view.document(stored.result, rows, details=args.details) if rows else []
    blocks += view.kernels(stored.result) if args.details or args.profiling else []
    terminal.show(blocks, out)
    try:
        plot = roofline.of_result(stored.result)
        if plot is not None:
            out.print(f"roofline: {plot.write(stored.path.with_suffix('.svg'))}", soft_wrap=True)
    except OSError as error:  # the disk is full
        out.print(f"no roofline: its file cannot be written: {error.strerror}")
    write_reproducers(stored.path, stored.result, lambda line: out.print(line, soft_wrap=True))
    say_where(stored, lambda line: out.print(line, soft_wrap=True), details=not args.details)
    for line in view.baseline_lines(rows):
        out.print(line, soft_wrap=True)
    print_result(stored, result_lines(stored.result, rows), args.output)


def exit_code(result: Result, rows: Sequence[SummaryRow], strict: bool) -> int:
    """Return the exit code of a session that was not interrupted, see ``run_settings``."""
    from modelzoo.results.summary import is_unproven
    from modelzoo.views.run import objections

    for objection in objections(rows) if strict else ():
        tell(f"modelzoo: --strict: {objection}")
    if any(run.error for run in result.runs):
        return 2
    return max([int(strict and any(map(is_unproven, rows))), *(entry.exit_code for entry in result.validity)])

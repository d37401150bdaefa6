"""``modelzoo run``: time workloads, and judge their predictions with ``--validate``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from modelzoo.cli.options import Measurement, Output
from modelzoo.cli.output import (
    new_result,
    print_document,
    print_result,
    result_lines,
    result_path,
    say_where,
    tell,
    write_reproducers,
)
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.session import measure_session, measured, planned
from modelzoo.document import terminal
from modelzoo.machine import facts
from modelzoo.measure import schedule
from modelzoo.records.run import Result
from modelzoo.results import summary
from modelzoo.results.store import ResultFile
from modelzoo.results.summary import SummaryRow
from modelzoo.views.kinds import baseline_lines, objections, run_document, run_kernels
from modelzoo.views.plots import scatter
from modelzoo.views.progress import plan_of_run


def run(args: argparse.Namespace, how: Measurement, output: Output) -> int:
    """Run ``modelzoo run``; return the exit code."""
    return run_settings(select_settings(args, "fp32,bf16"), how, output)


def run_settings(jobs: Jobs, how: Measurement, output: Output) -> int:
    """Time every setting of ``jobs``, store each run as it ends, and print the table and the ``[TARGET]`` lines.

    Returns:
        0, or 1 if ``--strict`` is not satisfied or predictions are not valid; 2 if the command line was invalid, a
        run failed, the result could not be written or the predictions could not be judged; 130 if the user interrupted
        it.
    """
    if output.dry_run:
        return show_plan(jobs, how)
    result = new_result(jobs, output.label)
    # Writing the file now shows whether it can be written, not after minutes.
    stored = ResultFile(result_path(output.output, result.created), result)

    def show(out: Console, interrupted: bool) -> int:
        failed = stored.result.only_error()
        if failed is not None and not interrupted:
            # Everything failed for the same reason: print it once instead of an empty table.
            tell(f"modelzoo: error: {failed.error}")
            return 2
        rows = summary.rows(stored.result)
        _show(stored, rows, out, how, output.output)
        return exit_code(stored.result, rows, how.strict)

    return measured(
        stored,
        lambda progress: measure_session(jobs, how, stored, progress),
        show,
        lambda: len(stored.result.runs),
    )


def show_plan(jobs: Jobs, how: Measurement) -> int:
    """Print what the call would measure; nothing is started, and no weights are needed."""
    machine = facts.read_machine()
    requests, effort = planned(jobs, how, machine)
    budget = schedule.budget(requests, effort)
    print_document(plan_of_run(new_result(jobs), machine, effort, budget, validates=how.validate))
    return 0


def _show(stored: ResultFile, rows: Sequence[SummaryRow], out: Console, how: Measurement, output: str | None) -> None:
    blocks = run_document(stored.result, rows, details=how.details) if rows else []
    blocks += run_kernels(stored.result) if how.details or how.profiling else []
    terminal.show(blocks, out)
    try:
        plot = scatter.roofline_of(stored.result)
        if plot is not None:
            out.print(f"roofline: {plot.write(stored.path.with_suffix('.svg'))}")
    except OSError as error:  # the disk is full
        out.print(f"no roofline: its file cannot be written: {error.strerror}")
    write_reproducers(stored.path, stored.result, out.print)
    say_where(stored, out.print, details=not how.details)
    for line in baseline_lines(rows):
        out.print(line)
    print_result(stored, result_lines(stored.result, rows), output)


def exit_code(result: Result, rows: Sequence[SummaryRow], strict: bool) -> int:
    """Return the exit code of a session that was not interrupted, see ``run_settings``."""
    for objection in objections(rows) if strict else ():
        tell(f"modelzoo: --strict: {objection}")
    if any(run.error for run in result.runs):
        return 2
    return max([int(strict and any(map(summary.is_unproven, rows))), *(entry.exit_code for entry in result.validity)])

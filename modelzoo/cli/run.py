"""``modelzoo run``: time workloads, and judge their predictions with ``--validate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import options
from modelzoo.cli.output import new_result, print_lines, result_lines, result_path
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.validate import judge_setting
from modelzoo.errors import UsageError, WorkerError
from modelzoo.setting import PROCESSES, Setting

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.results.store import ResultFile
    from modelzoo.results.summary import SummaryRow


def run(args: argparse.Namespace) -> int:
    """Run ``modelzoo run``; return the exit code."""
    return run_settings(select_settings(args, "fp32,bf16"), args)


def run_settings(jobs: Jobs, args: argparse.Namespace) -> int:
    """Time every setting of ``jobs``, store each run as it ends, and print the table and the ``[TARGET]`` lines.

    Returns:
        0, or 1 if a worker died, ``--strict`` is not satisfied or predictions are not valid; 2 if the command
        line was invalid or the predictions could not be judged; 130 if the user interrupted it.
    """
    from modelzoo.report import terminal
    from modelzoo.results import summary
    from modelzoo.results.store import ResultFile

    if args.trace and not Path(args.trace).absolute().parent.is_dir():
        raise UsageError(f"--trace {args.trace}: its directory does not exist")
    args.profiling = args.profiling or bool(args.trace)
    options.make_plan(args)
    options.make_effort(args)
    result = new_result(jobs)
    # Writing the file now shows whether it can be written, not after minutes.
    stored = ResultFile(result_path(args.json, result.created), result)
    out = terminal.console()
    completed = _measure(jobs, args, stored, out)
    rows = summary.rows(stored.result)
    failed = stored.result.only_error()
    if failed is not None and completed:
        # Everything failed for the same reason: print it once instead of an empty table.
        print(f"modelzoo: error: {failed.error}", file=sys.stderr)
        return 1 if failed.error_kind == WorkerError.__name__ else 2
    _show(stored, rows, out, kernels=len(jobs) == 1 or args.profiling)
    if not completed:
        count = len(stored.result.runs)
        print(f"modelzoo: interrupted; {count} finished runs are in {stored.path}", file=sys.stderr)
        return 130
    return _exit_code(stored, rows, args.strict)


def _measure(jobs: Jobs, args: argparse.Namespace, stored: ResultFile, out: Console) -> bool:
    """Run everything; return ``False`` if the user interrupted it."""
    from modelzoo.machine.facts import read_machine
    from modelzoo.measure import schedule
    from modelzoo.report.terminal import LiveProgress

    judging = {work.name: options.make_judging(args, work) for work, _ in jobs if args.validate}
    # More processes only narrow the interval of a time, and under an emulator nothing is timed.
    processes = 1 if read_machine().emulator else args.processes or PROCESSES
    plan = options.make_plan(args)
    total = sum(len(settings) * processes + len(_to_judge(settings, args)) for _, settings in jobs)
    first = 0
    with LiveProgress(out, total) as progress:
        try:
            for work, settings in jobs:
                request = schedule.Request(
                    workload=work,
                    settings=settings,
                    plan=plan,
                    processes=processes,
                    profiling=args.profiling,
                    trace=args.trace,
                    audit=not args.no_audit,
                    first_group=first,
                )
                for done in schedule.run(request, progress.update):
                    stored.add_run(done)
                    progress.advance()
                for index in _to_judge(settings, args):
                    entry = judge_setting(work, settings[index], first + index, judging[work.name], progress.update)
                    stored.add_validity(entry)
                    progress.advance()
                first += len(settings)
        except KeyboardInterrupt:
            return False
    return True


def _to_judge(settings: Sequence[Setting], args: argparse.Namespace) -> list[int]:
    """Indices of the settings to judge: the reference is not compared with itself."""
    if not args.validate:
        return []
    return [index for index, setting in enumerate(settings) if setting != setting.reference()]


def _show(stored: ResultFile, rows: Sequence[SummaryRow], out: Console, *, kernels: bool) -> None:
    from modelzoo.report import roofline, terminal

    if kernels:
        terminal.show_kernels(stored.result, out)
    terminal.show(rows, out)
    plot = roofline.plot_result(stored.result, stored.path.with_suffix(".svg"))
    if plot is not None:
        out.print(f"roofline: {plot}", soft_wrap=True)
    out.print(f"result: {stored.path}", soft_wrap=True)
    print_lines(result_lines(stored.result, rows))


def _exit_code(stored: ResultFile, rows: Sequence[SummaryRow], strict: bool) -> int:
    from modelzoo.results import summary

    unproven = summary.unproven(rows) if strict else []
    for reason in unproven:
        print(f"modelzoo: --strict: {reason}", file=sys.stderr)
    failed = [run for run in stored.result.runs if run.error]
    if failed:
        return 1 if any(run.error_kind == WorkerError.__name__ for run in failed) else 2
    return max([1 if unproven else 0, *(entry.exit_code for entry in stored.result.validity)])

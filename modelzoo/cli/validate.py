"""``modelzoo validate``: judge the predictions of a setting, with fp32 as the reference."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from modelzoo.cli import options, setting_options
from modelzoo.cli.output import details_command, new_result, print_result, result_path, write_reproducers
from modelzoo.cli.parser import Parser
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.errors import ModelzooError
from modelzoo.formatting import printable
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.measure.jobs import OnEvent
    from modelzoo.records.run import ValidityEntry
ESSENTIAL = (
    *("--precision", "--bf16", "--fp16", "--mode", "--engine", "--data", "--limit", "--tolerance", "--artifacts"),
    *("--explain", "--output"),
)
"""Options that most calls need, which ``--help`` shows."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo validate``."""
    setting_options.add_workloads(parser, "bf16")
    setting_options.add_setting(parser)
    options.add_validity(parser)
    options.add_output(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=validate_command, vary=[], setting=[], baseline=None)


def validate_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo validate``; return the exit code."""
    return judge_settings(select_settings(args, "bf16"), args)


def judge_settings(jobs: Jobs, args: argparse.Namespace) -> int:
    """Judge every setting of ``jobs`` and store each judgement at once; return the worst exit code.

    Returns:
        0 if all are valid or only numbers were judged, 1 if one is not valid, 2 if one is inconclusive or could not be
        judged, which counts as worse than not valid.
    """
    from modelzoo.document import terminal
    from modelzoo.results.store import ResultFile
    from modelzoo.views.judgement import valid_line
    from modelzoo.views.progress import LiveProgress

    judging = [options.make_judging(args, work) for work, _ in jobs]
    result = new_result(jobs, name=args.label)
    stored = ResultFile(result_path(args.output, result.created), result)
    out = terminal.console()
    group = 0
    with LiveProgress(out, result) as progress:
        for (work, settings), how in zip(jobs, judging):
            for setting in settings:
                entry = judge_setting(work, setting, group, how, progress.judging)
                stored.add_validity(entry)
                if group:
                    out.print()
                show(entry, out)
                group += 1
    write_reproducers(stored.path, stored.result, lambda line: out.print(line, soft_wrap=True))
    out.print(f"details: {details_command(stored.path)}", soft_wrap=True)
    out.print(f"result: {stored.path}", soft_wrap=True)
    entries = stored.result.validity
    judged = [valid_line(entry.report.validity) for entry in entries if entry.report is not None]
    print_result(stored.path, judged, args.output)
    return max(entry.exit_code for entry in entries)


def show(entry: ValidityEntry, out: Console) -> None:
    """Print a judgement, or the error on one line if there is none."""
    from modelzoo.document import terminal
    from modelzoo.views import validity

    if entry.report is None:
        error = printable(entry.error or "it could not be judged")
        out.print(f"modelzoo: error: {entry.workload}: {error}", style="bold red", soft_wrap=True)
    else:
        terminal.show(validity.document(entry), out)


def judge_setting(
    work: Workload, setting: Setting, group: int, judging: options.Judging, on_event: OnEvent
) -> ValidityEntry:
    """Judge one setting in a fresh process, and write its images and tables.

    If it fails, the entry holds the error.
    """
    from modelzoo.measure import jobs
    from modelzoo.measure.jobs import Request
    from modelzoo.records.run import ValidityEntry, now
    from modelzoo.views.exhibits import ExhibitWriter

    started = now()
    writer = ExhibitWriter(judging.output, work.name)
    try:
        request = Request(work, (setting,), Plan(), timeout=judging.timeout)
        report = jobs.validate(request, judging.request, on_event, writer.write)
    except ModelzooError as error:
        return ValidityEntry(work.name, group, setting, exit_code=2, error=str(error), started=started, ended=now())
    return ValidityEntry(
        work.name,
        group,
        setting,
        exit_code=report.validity.exit_code,
        report=report,
        started=started,
        ended=now(),
        files=tuple(map(str, writer.files)),
        thumbnails=writer.thumbnails(),
    )

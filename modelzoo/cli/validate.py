"""``modelzoo validate``: judge the predictions of a setting, with fp32 as the reference."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import options, setting_options
from modelzoo.cli.output import (
    STDOUT,
    check_directory,
    ended_early,
    kept_text,
    new_result,
    print_result,
    result_path,
    say_where,
    stored_code,
    tell,
    write_reproducers,
)
from modelzoo.cli.parser import Parser
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.errors import ModelzooError, UsageError
from modelzoo.formatting import printable
from modelzoo.frozen import replace
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.measure.jobs import OnEvent, Shards
    from modelzoo.records.fleet import ShardResult
    from modelzoo.records.run import Result, ValidityEntry, ValidityReport
    from modelzoo.views.exhibits import ExhibitWriter
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
    group = parser.add_argument_group("parts, on any machines")
    group.add_argument(
        "--shard",
        type=_part,
        metavar="K/N",
        help="judge part K of N only, and write it to the file that --json names, for --merge",
    )
    group.add_argument(
        "--merge",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="judge all parts together; workload, setting and data are those of the files (--data PATH if it is "
        "elsewhere here)",
    )
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=validate_command, vary=[], setting=[], baseline=None)


def _part(text: str) -> tuple[int, int]:
    """Return ``3/10`` as numbers."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part; write 3/10 for the third of ten")
    return int(found[1]), int(found[2])


def validate_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo validate``; return the exit code."""
    if args.merge:
        return merge_parts(args)
    jobs = select_settings(args, "bf16")
    return judge_settings(jobs, args) if args.shard is None else judge_part(jobs, args)


class Judgements:
    """What one call judges: each judgement is stored and shown at once."""

    def __init__(self, result: Result, args: argparse.Namespace) -> None:
        from modelzoo.document import terminal
        from modelzoo.results.store import ResultFile

        self.args, self.out = args, terminal.console()
        self._stored = ResultFile(result_path(args.output, result.created), result)

    def add(self, entry: ValidityEntry) -> None:
        """Show and store a judgement."""
        if entry.group:
            self.out.print()
        show(entry, self.out)
        self._stored.add_validity(entry)

    def merge(
        self,
        work: Workload,
        setting: Setting,
        group: int,
        shards: Shards,
        results: Iterable[ShardResult],
        writer: ExhibitWriter,
        started: str,
        reused: int = 0,
    ) -> None:
        """Judge the results of all shards, and say who judged what. Arguments: as for ``conclude``."""
        from modelzoo.document import terminal
        from modelzoo.fleet.shards import conclude
        from modelzoo.views.fleet import sharding_document

        report, sharding = conclude(shards, group, results, reused)
        self._stored.add_sharding(sharding)
        self.add(_entry(work, setting, group, report, writer, started))
        self.out.print()
        terminal.show(sharding_document([sharding]), self.out)

    def interrupted(self) -> int:
        """Say where the finished judgements are; return the exit code."""
        return ended_early(self._stored, len(self._stored.result.validity), "accuracy checks")

    def end(self) -> int:
        """Print where everything is and the lines for scripts; return the worst exit code."""
        from modelzoo.views.judgement import valid_line

        def say(line: str) -> None:
            self.out.print(line, soft_wrap=True)

        write_reproducers(self._stored.path, self._stored.result, say)
        say_where(self._stored, say, details=True)
        entries = self._stored.result.validity
        judged = [valid_line(entry.report.validity) for entry in entries if entry.report is not None]
        print_result(self._stored, judged, self.args.output)
        return stored_code(self._stored, max(entry.exit_code for entry in entries))


def judge_settings(jobs: Jobs, args: argparse.Namespace) -> int:
    """Judge every setting of ``jobs`` and store each judgement at once; return the worst exit code.

    Returns:
        0 if all are valid or only numbers were judged, 1 if one is not valid, 2 if one is inconclusive or could not be
        judged, which counts as worse than not valid.
    """
    from modelzoo.views.progress import LiveProgress

    judging = [options.make_judging(args, work) for work, _ in jobs]
    result = new_result(jobs, name=args.label)
    judgements = Judgements(result, args)
    requested = [(work, setting, how) for (work, settings), how in zip(jobs, judging) for setting in settings]
    try:
        with LiveProgress(judgements.out, result) as progress:
            for group, (work, setting, how) in enumerate(requested):
                judgements.add(judge_setting(work, setting, group, how, progress.judging))
    except KeyboardInterrupt:
        return judgements.interrupted()
    return judgements.end()


def judge_part(jobs: Jobs, args: argparse.Namespace) -> int:
    """Judge one part of a data set, and write it to a file; return 0.

    Raises:
        UsageError: more than one setting is named, or no file.
    """
    from modelzoo.document import terminal
    from modelzoo.fleet.shards import open_shards, part_of, sharded_call
    from modelzoo.records.codec import encode_json
    from modelzoo.records.fleet import JudgedPart
    from modelzoo.results import store
    from modelzoo.views.exhibits import ExhibitWriter
    from modelzoo.views.judgement import plural
    from modelzoo.views.progress import LiveProgress

    number, count = args.shard
    if args.output in (None, STDOUT):
        raise UsageError(f"--shard {number}/{count} is kept in a file: name it with --json FILE")
    if len(jobs) > 1 or len(jobs[0][1]) > 1:
        raise UsageError("--shard divides the data set of one workload in one setting; name only one of each")
    check_directory(Path(args.output))
    ((work, (setting,)),) = jobs
    judging, out = options.make_judging(args, work), terminal.console()
    call = sharded_call(work, setting, judging.request, timeout=judging.timeout)
    writer = ExhibitWriter(judging.output, work.name)
    live = LiveProgress(out, new_result(jobs))
    with live as progress, open_shards(call, writer.write, progress.judging) as shards:
        results = tuple(shards.judge(each) for each in part_of(shards.plan, number, count))
        part = JudgedPart(call, number, count, shards.plan.facts, results)
    place, problem = store.keep(Path(args.output), encode_json(part) + b"\n")
    items = sum(each.shard.items for each in results)
    out.print(
        f"part {number} of {count}: {items} of {shards.plan.items} {plural(shards.plan.item_name)} are judged, in "
        f"{place or 'no file'}; 'modelzoo validate --merge FILE…' judges all parts together",
        soft_wrap=True,
    )
    _say_missing(writer)
    if problem:
        raise UsageError(kept_text(problem, place))
    return 0


def merge_parts(args: argparse.Namespace) -> int:
    """Judge the parts of a data set together; return the exit code of the judgement."""
    from modelzoo.cli.app import make_parser
    from modelzoo.fleet.shards import open_shards, read_part, whole
    from modelzoo.records.run import now
    from modelzoo.views.exhibits import ExhibitWriter

    defaults = vars(make_parser().parse_args(["validate", "--merge", *map(str, args.merge)]))
    own = ("data", "artifacts", "label", "output", "words")
    given = [name for name, value in vars(args).items() if name not in own and value != defaults[name]]
    if given:
        raise UsageError(f"--merge takes {', '.join(given)} from the files; leave it out")
    started, parts = now(), {path: read_part(path) for path in args.merge}
    call = parts[args.merge[0]].call
    data = args.data or call.request.data
    args = argparse.Namespace(**{**vars(args), "data": data, "limit": call.request.limit})
    work = load_workload(find_workload(call.workload))
    judging = options.make_judging(args, work)
    call = replace(call, request=replace(call.request, data=judging.request.data))
    writer = ExhibitWriter(judging.output, work.name)
    with open_shards(call, writer.write) as shards:
        results = whole(shards.plan, call, parts)
        judgements = Judgements(new_result([(work, (call.setting,))], name=args.label), args)
        judgements.merge(work, call.setting, 0, shards, results, writer, started)
    return judgements.end()


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
    return _entry(work, setting, group, report, writer, started)


def _entry(
    work: Workload, setting: Setting, group: int, report: ValidityReport, writer: ExhibitWriter, started: str
) -> ValidityEntry:
    from modelzoo.records.run import ValidityEntry, now

    _say_missing(writer)
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


def _say_missing(writer: ExhibitWriter) -> None:
    if writer.problem:
        tell(f"modelzoo: pictures and tables are missing: {writer.problem}")

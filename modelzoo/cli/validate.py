"""``modelzoo validate``: judge the predictions of a setting, with fp32 as the reference."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from modelzoo.cli import files
from modelzoo.cli.options import Accuracy, Output
from modelzoo.cli.run import judge_setting, judged_entry, make_judging, measured, say_missing
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.document import terminal
from modelzoo.errors import UsageError
from modelzoo.fleet.shards import conclude, open_shards, part_of, read_part, sharded_call, whole
from modelzoo.formatting import printable
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Shards
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import JudgedPart, ShardResult
from modelzoo.records.run import Result, ValidityEntry, now
from modelzoo.results import store
from modelzoo.results.store import ResultFile
from modelzoo.setting import Setting
from modelzoo.views import validity
from modelzoo.views.exhibits import ExhibitWriter
from modelzoo.views.fleet import sharding_document
from modelzoo.views.judgement import plural, valid_line
from modelzoo.views.progress import LiveProgress
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload


def validate_command(args: argparse.Namespace, accuracy: Accuracy, output: Output) -> int:
    """Run ``modelzoo validate``; return the exit code."""
    if args.merge:
        return merge_parts(args, accuracy, output)
    jobs = select_settings(args, "bf16")
    if args.shard is None:
        return judge_settings(jobs, accuracy, output)
    return judge_part(jobs, args.shard, accuracy, output.output)


class Judgements:
    """What one call judges: each judgement is stored and shown at once."""

    def __init__(self, result: Result, output: str | None) -> None:
        self.out, self._output = terminal.console(), output
        self.stored = ResultFile(files.result_path(output, result.created), result)

    def add(self, entry: ValidityEntry) -> None:
        """Show and store a judgement; if there is none, its error is one line."""
        if entry.group:
            self.out.print()
        if entry.report is None:
            error = printable(entry.error or "it could not be judged")
            self.out.print(f"modelzoo: error: {entry.workload}: {error}", style="bold red")
        else:
            terminal.show(validity.document(entry), self.out)
        self.stored.add(entry)

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
        report, sharding = conclude(shards, group, results, reused)
        self.stored.add(sharding)
        self.add(judged_entry(work, setting, group, report, writer, started))
        self.out.print()
        terminal.show(sharding_document([sharding]), self.out)

    def end(self) -> int:
        """Print where everything is and the lines for scripts; return the worst exit code."""
        files.write_reproducers(self.stored.path, self.stored.result, self.out.print)
        files.say_where(self.stored, self.out.print, details=True)
        entries = self.stored.result.validity
        judged = [valid_line(entry.report.validity) for entry in entries if entry.report is not None]
        files.print_result(self.stored, judged, self._output)
        return max(entry.exit_code for entry in entries)


def judge_settings(jobs: Jobs, accuracy: Accuracy, output: Output) -> int:
    """Judge every setting of ``jobs`` and store each judgement at once; return the worst exit code.

    Returns:
        0 if all are valid or only numbers were judged, 1 if one is not valid, 2 if one is inconclusive or could not be
        judged, which counts as worse than not valid.
    """
    for work, _ in jobs:
        make_judging(accuracy, work)  # what is wrong with it is said before anything runs
    judgements = Judgements(files.new_result(jobs, name=output.label), output.output)
    requested = [(work, setting) for work, settings in jobs for setting in settings]

    def measure(progress: LiveProgress) -> None:
        for group, (work, setting) in enumerate(requested):
            judgements.add(judge_setting(work, setting, group, accuracy, progress.judging))

    return measured(
        judgements.stored,
        measure,
        lambda out, ended_early: 0 if ended_early else judgements.end(),
        lambda result: result.validity,
        "accuracy checks",
        out=judgements.out,
    )


def judge_part(jobs: Jobs, part: tuple[int, int], accuracy: Accuracy, output: str | None) -> int:
    """Judge one part of a data set, and write it to a file; return 0.

    Raises:
        UsageError: more than one setting is named, or no file.
    """
    number, count = part
    if output is None or output == files.STDOUT:
        raise UsageError(f"--shard {number}/{count} is kept in a file: name it with --json FILE")
    if len(jobs) > 1 or len(jobs[0][1]) > 1:
        raise UsageError("--shard divides the data set of one workload in one setting; name only one of each")
    files.check_directory(Path(output))
    ((work, (setting,)),) = jobs
    (request, directory), out = make_judging(accuracy, work), terminal.console()
    call = sharded_call(work, setting, request, timeout=accuracy.timeout)
    writer = ExhibitWriter(directory, work.name)
    live = LiveProgress(out, files.new_result(jobs))
    with live as progress, open_shards(call, writer.write, progress.judging) as shards:
        results = tuple(shards.judge(each) for each in part_of(shards.plan, number, count))
        judged = JudgedPart(call, number, count, shards.plan.facts, results)
    place, problem = store.keep(Path(output), encode_json(judged) + b"\n")
    items = sum(each.shard.items for each in results)
    out.print(
        f"part {number} of {count}: {items} of {shards.plan.items} {plural(shards.plan.item_name)} are judged, in "
        f"{place or 'no file'}; 'modelzoo validate --merge FILE…' judges all parts together"
    )
    say_missing(writer)
    if problem:
        raise UsageError(files.kept_text(problem, place))
    return 0


def merge_parts(args: argparse.Namespace, accuracy: Accuracy, output: Output) -> int:
    """Judge the parts of a data set together; return the exit code of the judgement."""
    from modelzoo.cli.app import make_parser

    defaults = vars(make_parser().parse_args(["validate", "--merge", *map(str, args.merge)]))
    own = ("data", "artifacts", "label", "output", "words")
    given = [name for name, value in vars(args).items() if name not in own and value != defaults[name]]
    if given:
        raise UsageError(f"--merge takes {', '.join(given)} from the files; leave it out")
    started, parts = now(), {path: read_part(path) for path in args.merge}
    call = parts[args.merge[0]].call
    work = load_workload(find_workload(call.workload))
    accuracy = replace(accuracy, data=accuracy.data or call.request.data, limit=call.request.limit)
    request, directory = make_judging(accuracy, work)
    call = replace(call, request=replace(call.request, data=request.data))
    writer = ExhibitWriter(directory, work.name)
    with open_shards(call, writer.write) as shards:
        results = whole(shards.plan, call, parts)
        judgements = Judgements(files.new_result([(work, (call.setting,))], name=output.label), output.output)
        judgements.merge(work, call.setting, 0, shards, results, writer, started)
    return files.stored_code(judgements.stored, judgements.end())

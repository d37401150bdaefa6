"""``modelzoo fleet validate``: judge predictions on a whole data set, divided among many hosts."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Optional

from modelzoo.cli import options
from modelzoo.cli.output import new_result, print_result, result_path, tell
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.session import INTERRUPTED
from modelzoo.cli.validate import show
from modelzoo.errors import ModelzooError, UsageError
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import Workload

if TYPE_CHECKING:
    from modelzoo.fleet.member import ShardFiles
    from modelzoo.fleet.membership import Address, Membership
    from modelzoo.fleet.validation import Judged
    from modelzoo.measure.shard_calls import Shards
    from modelzoo.records.run import ValidityEntry
    from modelzoo.views.exhibits import ExhibitWriter


def validate_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet validate`` as the member that torchrun has made of this process; return the exit code.

    Returns:
        on the host of the store as ``modelzoo validate``; elsewhere 0 if this member did its part, else 2; 130 if the
        user interrupted it.
    """
    from modelzoo.fleet.collector import store_of
    from modelzoo.fleet.member import ShardFiles
    from modelzoo.fleet.membership import membership

    if args.data is None:
        raise UsageError("'modelzoo fleet validate' divides a data set: name it with --data PATH")
    if args.recheck < 0:
        raise UsageError(f"--recheck must be 0 or more, not {args.recheck}")
    jobs, files = select_settings(args, "bf16"), ShardFiles(args.shards_dir)
    here = membership(os.environ, args.store, args.bind)
    try:
        with store_of(here) as store:
            return _Call(jobs, args, here, store, files).judge()
    except KeyboardInterrupt:
        tell(f"modelzoo: interrupted; finished shards are kept in {args.shards_dir}, run the same command again")
        return INTERRUPTED


class _Call:
    """The settings of one call, judged one after the other."""

    def __init__(
        self, jobs: Jobs, args: argparse.Namespace, here: Membership, store: Address, files: ShardFiles
    ) -> None:
        from modelzoo.document import terminal
        from modelzoo.results.store import ResultFile

        self._jobs, self._args, self._here, self._store, self._files = jobs, args, here, store, files
        self._out = terminal.console()
        self._stored: Optional[ResultFile] = None
        if here.has_store:
            result = new_result(jobs, name=args.label)
            self._stored = ResultFile(result_path(args.output, result.created), result)

    def judge(self) -> int:
        """Judge all settings; return the worst exit code."""
        from modelzoo.views.judgement import valid_line

        requested = [(work, setting) for work, settings in self._jobs for setting in settings]
        worst = max(self._judge_setting(work, setting, group) for group, (work, setting) in enumerate(requested))
        if self._stored is not None:
            self._say(f"result: {self._stored.path}")
            reports = [entry.report for entry in self._stored.result.validity]
            judged = [valid_line(report.validity) for report in reports if report is not None]
            print_result(self._stored.path, judged, self._args.output)
        return worst

    def _say(self, text: str) -> None:
        self._out.print(text, soft_wrap=True)

    def _judge_setting(self, work: Workload, setting: Setting, group: int) -> int:
        """Take part in judging one setting; the exit code is that of the judgement on the host of the store."""
        from modelzoo.document import terminal
        from modelzoo.fleet.store import StoreLostError
        from modelzoo.fleet.validation import cannot_judge, judge_together
        from modelzoo.measure.jobs import Request, only_silence
        from modelzoo.measure.shard_calls import Shards
        from modelzoo.records.run import ValidityEntry, now
        from modelzoo.views import fleet
        from modelzoo.views.exhibits import ExhibitWriter
        from modelzoo.views.progress import silence_line

        args, stored, started = self._args, self._stored, now()
        judging = options.make_judging(args, work)
        writer = ExhibitWriter(judging.output, work.name)
        request = Request(work, (setting,), Plan(), timeout=args.timeout)
        on_event = only_silence(lambda event: self._say(silence_line(event)))
        try:
            with Shards(request, judging.request, args.shard_items, on_event, writer.write) as shards:
                judged = judge_together(
                    self._here,
                    self._store,
                    shards,
                    self._files,
                    group,
                    args.recheck,
                    lambda event: self._say(fleet.event_text(event)),
                )
                if judged is None or stored is None:
                    return 0
                entry = self._conclude(work, setting, group, started, shards, judged, writer)
        except StoreLostError:
            raise
        except ModelzooError as error:
            if stored is None:  # the other settings may be judged all the same
                tell(f"modelzoo: error: {work.name} {setting.label}: {error}")
                return 2
            cannot_judge(self._store, group, str(error))
            entry = ValidityEntry(
                work.name, group, setting, exit_code=2, error=str(error), started=started, ended=now()
            )
        stored.add_validity(entry)
        sharding = [each for each in stored.result.sharding if each.group == group]
        if group:
            self._out.print()
        show(entry, self._out)
        if sharding:
            self._out.print()
        terminal.show(fleet.sharding_document(sharding), self._out)
        return entry.exit_code

    def _conclude(
        self,
        work: Workload,
        setting: Setting,
        group: int,
        started: str,
        shards: Shards,
        judged: Judged,
        writer: ExhibitWriter,
    ) -> ValidityEntry:
        """Judge the merged results of all shards, and store who judged what."""
        from modelzoo.fleet.validation import report_of
        from modelzoo.records.run import ValidityEntry, now

        assert self._stored is not None
        self._stored.add_sharding(judged.sharding)
        validity = shards.conclude(self._files.lines(shards.plan))
        return ValidityEntry(
            work.name,
            group,
            setting,
            exit_code=validity.exit_code,
            report=report_of(judged, validity, shards),
            started=started,
            ended=now(),
            files=tuple(map(str, writer.files)),
            thumbnails=writer.thumbnails(),
        )

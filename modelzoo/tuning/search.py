"""Run a search: measure candidates in interleaved rounds, exclude, halve, choose, and measure the choice again.

All that is known stands in the stored result, which is written after every process. A search that was interrupted goes
on from there: which stage it was in, and what is left of it, follows from the result alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Event, OnEvent, Request
from modelzoo.measure.rounds import Rounds
from modelzoo.plan import Plan
from modelzoo.records.run import Result, Run, ValidityEntry
from modelzoo.records.tuning import Choice, Exclusion, ExclusionKind, Stage, StageKind, Tuning
from modelzoo.results import tuning as results
from modelzoo.results.store import ResultFile
from modelzoo.setting import Setting, labels
from modelzoo.stats import race
from modelzoo.tuning import choice, halving
from modelzoo.tuning.halving import Costs, Time
from modelzoo.workload import Workload

BLOCK = 7
"""Candidates that sample in the same rounds, besides the default; fewer if they do not fit into memory."""

Judge = Callable[[Setting, int], ValidityEntry]
"""Judges the predictions of a setting, whose group is given as well."""


@dataclass
class Search:
    """One search.

    Attributes:
        work: the workload.
        stored: the result so far, which holds the grid.
        judge: judges a bf16 candidate that may win.
        on_event: called with the progress of workers.
        on_run: called with each run that has ended.
        timeout: that of the workers.
        clock: seconds.
    """

    work: Workload
    stored: ResultFile
    judge: Judge
    on_event: OnEvent
    on_run: Callable[[Run], None] = lambda run: None
    timeout: float | None = None
    clock: Callable[[], float] = perf_counter
    _started: float = 0.0
    _before: float = 0.0
    _rounds: dict[tuple[int, ...], Rounds] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        """What is known so far."""
        return self.stored.result

    @property
    def tuning(self) -> Tuning:
        """The search as it is recorded."""
        return results.of(self.stored.result)

    def run(self) -> None:
        """Search to the end, or go on with a search that was interrupted.

        Raises:
            WorkerError: the default setting cannot run, or not in its precision.
            UsageError: the result cannot be written.
        """
        self._started, self._before = self.clock(), self.tuning.spent
        try:
            self._probe()
            self._search()
            if self.tuning.choice is None:
                self._choose()
            self._confirm()
            self._update(replace(self.tuning, is_complete=True))
        finally:
            self.stored.set_payload(replace(self.tuning, spent=self._spent()))

    # Stages

    def _probe(self) -> None:
        """Measure the default alone: it shows what a process costs and what the model runs.

        What cannot have an effect then, or cannot be judged, is excluded.
        """
        stage = self.tuning.stage(StageKind.PROBE) or self._begin(StageKind.PROBE, (0,), 1, halving.SAMPLING_SECONDS)
        self._run_stage(stage)
        report = next(run.report for run in self.result.runs if run.group == 0 and run.report is not None)
        choice.check_default(report)
        default, found = self._settings[0], []
        unjudgeable = choice.unjudgeable(report, self.work.judge is not None)
        for group in self.tuning.open():
            setting = self._settings[group]
            changes = {name for axis in choice.changed(default, setting) for name in axis}
            if setting.precision == "int8":
                changes.add("linear")  # which the recipes quantize
            kind = choice.pointless(changes, report)
            if kind is None and setting.precision != "fp32" and not self._may_be_unjudged(setting):
                kind = unjudgeable
            found += [Exclusion(group, kind)] if kind is not None else []
        self._exclude(found)

    def _search(self) -> None:
        """Measure the candidates, and keep the faster half after each stage."""
        done = [each for each in self.tuning.stages if each.kind is StageKind.SEARCH]
        sizes = race.sizes(len(done[0].groups) - 1 if done else len(self.tuning.open()))
        for number, size in enumerate(sizes):
            if number < len(done):
                stage = done[number]
            else:
                survivors = self._survivors(size, is_last=number == len(sizes) - 1)
                if not survivors or self.tuning.choice is not None:
                    return
                groups = (0, *survivors)
                costs = [self._costs().of(group) for group in groups]
                count = halving.stage_rounds(costs, len(sizes) - number, self._time()) if number else 1
                stage = self._begin(StageKind.SEARCH, groups, count, halving.SAMPLING_SECONDS)
            self._run_stage(stage)

    def _survivors(self, size: int, *, is_last: bool) -> list[int]:
        """The fastest candidates that may win, at most ``size``; the others are excluded from here on."""
        logs = results.logs(self.result)
        measured = race.ranked({group: logs.get(group, {}) for group in self.tuning.open()})
        order = measured or list(self.tuning.open())
        kept: list[int] = []
        for group in order:
            if len(kept) < size and not (is_last and self._is_invalid(group)):
                kept.append(group)
        slower = [group for group in measured if group not in kept and group in self.tuning.open()]
        self._exclude(Exclusion(group, ExclusionKind.SLOWER) for group in slower)
        return kept

    def _may_be_unjudged(self, setting: Setting) -> bool:
        """Whether a candidate may win although its predictions were not found valid; in int8, it never may."""
        return self.tuning.allow_unjudged and setting.precision != "int8"

    def _is_invalid(self, group: int) -> bool:
        """Judge a candidate below fp32 that is about to enter the last stage; exclude it if it is not valid."""
        setting = self._settings[group]
        if setting.precision == "fp32" or (self._may_be_unjudged(setting) and self.work.judge is None):
            return False
        entry = self.result.judged().get(group)
        if entry is None:
            entry = self.judge(setting, group)
            self.stored.add_validity(entry)
        kind = choice.not_valid(entry, allow_unjudged=self._may_be_unjudged(setting))
        self._exclude([Exclusion(group, kind)] if kind is not None else [])
        return kind is not None

    def _choose(self) -> None:
        """Pick the winner from what the search has measured."""
        logs, settings = results.logs(self.result), self._settings
        finalists = {group: logs[group] for group in self.tuning.open() if logs.get(group)}
        changes = {group: len(choice.changed(settings[0], settings[group])) for group in finalists}
        found = choice.pick(finalists, changes)
        steps = choice.steps(settings[0], settings[found.winner])
        groups = tuple(self.stored.group_of(self.work.name, step) for step in steps)
        self._update(replace(self.tuning, choice=Choice(found.winner, found.best, found.ties, groups)))

    def _confirm(self) -> None:
        """Measure the winner again, with the default and the steps between them, in new processes."""
        stage, chosen = self.tuning.stage(StageKind.CONFIRMATION), self.tuning.choice
        if chosen is None or not chosen.winner:
            return
        if stage is None:
            for groups in ((0, *chosen.steps), (0, chosen.winner)):
                costs = self._costs()
                count = halving.confirmation_rounds([costs.of(group) for group in groups], self._time())
                if count >= halving.CONFIRMATION_ROUNDS[0]:
                    break
            if not count:
                return
            stage = self._begin(StageKind.CONFIRMATION, groups, count, halving.CONFIRMATION_SECONDS)
        self._run_stage(stage)

    # Running

    def _begin(self, kind: StageKind, groups: tuple[int, ...], rounds: int, seconds: float) -> Stage:
        samples = [median(run.steady) for run in self.result.runs if run.group == 0 and run.steady]
        sampling = halving.sampling_seconds(seconds, fmean(samples) if samples else 0.0)
        first = 1 + max((run.round for run in self.result.runs), default=-1)
        stage = Stage(kind, groups, rounds, sampling, first)
        self._update(self.tuning.plus_stage(stage))
        return stage

    def _run_stage(self, stage: Stage) -> None:
        """Measure until every setting has as many processes as planned, or the time is up.

        A stage that another one has followed is over, whatever it lacks: its processes would count as the other's.
        """
        if stage != self.tuning.stages[-1]:
            return
        while block := self._next_block(stage):
            block = self._affordable(stage, block)
            is_search = stage.kind is StageKind.SEARCH
            if not block:
                logs = results.logs(self.result)
                never = [group for group in stage.groups if group in self.tuning.open() and not logs.get(group)]
                self._exclude(Exclusion(group, ExclusionKind.NOT_MEASURED) for group in never if is_search)
                return
            self._sweep(stage, block)
            groups = self.result.groups()
            unfit = {group: choice.unfit(groups.get(group, []), groups[0]) for group in block if group and is_search}
            self._exclude(Exclusion(group, kind) for group, kind in unfit.items() if kind is not None)
            self._update(replace(self.tuning, spent=self._spent()))

    def _next_block(self, stage: Stage) -> list[int]:
        """The settings of the next sweep: those with the fewest processes in this stage, and the default."""
        runs = results.runs_of(self.result, stage)
        counts = Counter(run.group for run in runs)
        out = {each.group for each in self.tuning.excluded}
        if stage.kind is StageKind.CONFIRMATION:  # what reported an error will not run again, see ``Rounds``
            out = {run.group for run in runs if run.error_kind not in (None, WorkerError.__name__)}
        left = [group for group in stage.groups if group not in out and counts[group] < stage.rounds]
        others = [group for group in left if group]
        if not others:
            # Of a confirmation, the default has as many processes as the others; alone, it is the probe.
            return left if stage.groups == (0,) else []
        fewest = min(counts[group] for group in others)
        return [0, *[group for group in others if counts[group] == fewest][:BLOCK]]

    def _affordable(self, stage: Stage, block: Sequence[int]) -> list[int]:
        """As much of ``block`` as there is time for; empty if there is none for a single candidate."""
        time, costs = self._time(), self._costs()
        if stage.kind is StageKind.PROBE:
            return list(block)
        left = time.left if stage.kind is StageKind.CONFIRMATION else time.search_left
        if stage == self.tuning.stage(StageKind.SEARCH):
            left -= (1 - halving.FIRST_SHARE) * halving.SEARCH_SHARE * time.budget
        if stage.kind is StageKind.CONFIRMATION:  # the default and the winner belong together
            return list(block) if sum(map(costs.of, block)) <= left else []
        found, total = [0], costs.of(0)
        for group in block[1:]:
            total += costs.of(group)
            if total <= left:
                found.append(group)
        return found if len(found) > 1 else []

    def _sweep(self, stage: Stage, block: Sequence[int]) -> None:
        # The whole grid is prepared together, or what is confirmed.
        is_confirmation = stage.kind is StageKind.CONFIRMATION
        members = stage.groups if is_confirmation else tuple(range(self.tuning.candidates))
        if members not in self._rounds:
            chosen = tuple(self._settings[group] for group in members)
            names = dict(zip(labels(chosen), map(self.result.label, members)))

            def on_event(event: Event) -> None:
                self.on_event(replace(event, label=names.get(event.label, event.label)))

            self._rounds[members] = Rounds(Request(self.work, chosen, Plan(), timeout=self.timeout), on_event)
        offset: int | None = None
        for run in self._rounds[members].sweep(stage.seconds, among=[members.index(group) for group in block]):
            if offset is None:
                offset = 1 + max((each.round for each in self.result.runs), default=-1) - run.round
            moved = replace(run, group=members[run.group], round=run.round + offset)
            self.stored.add_run(moved)
            self.on_run(moved)
            if moved.group == 0 and moved.error is not None:
                raise WorkerError(f"the default setting failed: {moved.error}")

    # What is known

    @property
    def _settings(self) -> list[Setting]:
        return [requested.setting for requested in self.result.requested]

    def _costs(self) -> Costs:
        return Costs.read(self.result.runs, self._settings)

    def _spent(self) -> float:
        return self._before + self.clock() - self._started

    def _time(self) -> Time:
        return Time(self._spent(), self.tuning.budget)

    def _exclude(self, excluded: Iterable[Exclusion]) -> None:
        self._update(self.tuning.excluding(*excluded))

    def _update(self, tuning: Tuning) -> None:
        if tuning != self.tuning:
            self.stored.set_payload(tuning)

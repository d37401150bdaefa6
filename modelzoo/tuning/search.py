"""A race, and the one for the fastest setting: entrants are measured in stages, of which the faster half stays, and the
choice is measured again.

All that is known stands in the stored result, which is written whenever something is added. A race that was
interrupted goes on from there: which stage it was in, and what is left of it, follows from the result alone.

In the race of settings, rounds interleave a candidate's processes with the default's. A candidate that cannot win is
excluded as soon as that is known: by what the default runs, by what its own processes report, or by a judgement of its
predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import fmean, median
from time import perf_counter
from typing import Any, ClassVar, Generic, TypeVar

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Event, OnEvent, Request
from modelzoo.measure.rounds import Rounds
from modelzoo.plan import Plan
from modelzoo.records.race import Exclusion, ExclusionKind, Stage, StageKind, Throughput, Tuning
from modelzoo.records.run import Result, Run, ValidityEntry
from modelzoo.results import tuning as results
from modelzoo.results.store import ResultFile
from modelzoo.setting import Setting, labels
from modelzoo.stats import race
from modelzoo.stats.race import Choice
from modelzoo.tuning import decisions
from modelzoo.workload import Workload

R = TypeVar("R", bound=Tuning | Throughput)


@dataclass
class Driver(ABC, Generic[R]):
    """One race. A subclass says what its entrants are, and how they are measured.

    Attributes:
        stored: the result so far, which holds the entrants.
        beside: what takes part in every stage of the search, although it is no entrant.
    """

    stored: ResultFile
    beside: ClassVar[tuple[int, ...]] = ()

    @property
    @abstractmethod
    def found(self) -> R:
        """What is known so far."""

    @abstractmethod
    def measure(self, stage: Stage) -> None:
        """Measure a stage, or what is left of it."""

    @abstractmethod
    def next_round(self) -> int:
        """The number of the first round that has not begun."""

    @abstractmethod
    def ranked(self) -> Sequence[int]:
        """The entrants that are not out and were measured, the best first."""

    @abstractmethod
    def rounds(self, entrants: Sequence[int], number: int, left: int) -> int:
        """How many rounds the next stage has; it is the one of that number, from 0, and so many are ``left``."""

    @abstractmethod
    def choose(self) -> Choice | None:
        """What wins by what was measured; ``None`` if there was nothing to choose from."""

    @abstractmethod
    def confirmation(self, choice: Choice) -> Stage | None:
        """The stage that measures the choice again; ``None`` if it cannot be, or nothing was chosen.

        The choice took the luckiest of several, so its own rounds flatter it. The number of rounds is fixed before the
        first of them, so the data cannot decide when to stop.
        """

    def prepare(self) -> None:
        """Exclude what cannot take part."""

    def sizes(self, entrants: int) -> Sequence[int]:
        """How many entrants each stage measures."""
        return race.sizes(entrants)

    def is_unfit(self, entrant: int) -> bool:
        """Whether an entrant that is about to enter the last stage must not win; then it is excluded."""
        return False

    def behind(self, entrant: int) -> ExclusionKind | None:
        """Why an entrant that is not among the best is out; ``None``: it stays."""
        return ExclusionKind.SLOWER

    def run(self) -> None:
        """Race to the end, or go on with a race that was interrupted.

        Raises:
            ModelzooError: nothing can run.
            UsageError: the result cannot be written.
        """
        self.prepare()
        done = [each for each in self.found.stages if each.kind is StageKind.SEARCH]
        sizes = self.sizes(len(done[0].entrants) - len(self.beside) if done else len(self.found.open()))
        for number, size in enumerate(sizes):
            if number < len(done):
                stage = done[number]
            elif self.found.choice is not None:
                break
            else:
                kept = self._survivors(size, is_last=number == len(sizes) - 1)
                if not kept:
                    break
                entrants = (*self.beside, *kept)
                rounds = self.rounds(entrants, number, len(sizes) - number)
                stage = self.begin(StageKind.SEARCH, entrants, rounds)
            self.measure(stage)
        if self.found.choice is None:
            self.update(choice=self.choose())
        confirmation = self.found.stage(StageKind.CONFIRMATION)
        if confirmation is None and self.found.choice is not None:
            confirmation = self.confirmation(self.found.choice)
        if confirmation is not None:
            self.measure(confirmation)
        self.update(is_complete=True)

    def _survivors(self, size: int, *, is_last: bool) -> list[int]:
        """What the next stage measures: the best, at most ``size``; what is behind them is excluded from here on."""
        order, kept = self.ranked(), list[int]()
        for each in order or self.found.open():
            if len(kept) < size and not (is_last and self.is_unfit(each)):
                kept.append(each)
        others = {each: self.behind(each) for each in order if each not in kept and each in self.found.open()}
        self.exclude(*(Exclusion(each, kind) for each, kind in others.items() if kind is not None))
        return [*kept, *(each for each in sorted(others) if others[each] is None)]

    def begin(self, kind: StageKind, entrants: tuple[int, ...], rounds: int, seconds: float | None = None) -> Stage:
        """Record a stage before its first round."""
        stage = Stage(kind, entrants, rounds, seconds, self.next_round())
        self.update(stages=(*self.found.stages, stage))
        return stage

    def exclude(self, *excluded: Exclusion) -> None:
        """Exclude entrants; one that is out already keeps its first reason."""
        known = {each.entrant for each in self.found.excluded}
        self.update(excluded=(*self.found.excluded, *(each for each in excluded if each.entrant not in known)))

    def update(self, **changes: Any) -> None:
        """Store what has changed."""
        found = replace(self.found, **changes)
        if found != self.found:
            self.stored.set_payload(found)


BLOCK = 7
"""Candidates that sample in the same rounds, besides the default; fewer if they do not fit into memory."""

Judge = Callable[[Setting, int], ValidityEntry]
"""Judges the predictions of a setting, whose group is given as well."""


@dataclass
class Search(Driver[Tuning]):
    """One search.

    Attributes:
        stored: the result so far, which holds the grid.
        work: the workload.
        judge: judges a bf16 candidate that may win.
        on_event: called with the progress of workers.
        on_run: called with each run that has ended.
        timeout: that of the workers.
    """

    work: Workload
    judge: Judge
    on_event: OnEvent
    on_run: Callable[[Run], None] = lambda run: None
    timeout: float | None = None
    beside: ClassVar[tuple[int, ...]] = (0,)
    _started: float = 0.0
    _before: float = 0.0
    _rounds: dict[tuple[int, ...], Rounds] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        """The result so far."""
        return self.stored.result

    @property
    def found(self) -> Tuning:
        return results.of(self.stored.result)

    def run(self) -> None:
        """Search to the end, or go on with a search that was interrupted.

        Raises:
            WorkerError: the default setting cannot run, or not in its precision.
            UsageError: the result cannot be written.
        """
        self._started, self._before = perf_counter(), self.found.spent
        try:
            super().run()
        finally:
            self.update(spent=self._spent)

    # What takes part

    def prepare(self) -> None:
        """Measure the default alone: it shows what a process costs and what the model runs.

        What cannot have an effect then, or cannot be judged, is excluded.
        """
        self.measure(self.found.stage(StageKind.PROBE) or self.begin(StageKind.PROBE, (0,), 1))
        report = next(run.report for run in self.result.runs if run.group == 0 and run.report is not None)
        decisions.check_default(report)
        default, found = self._settings[0], []
        unjudgeable = decisions.unjudgeable(report, self.work.judge is not None)
        for group in self.found.open():
            setting = self._settings[group]
            changes = {name for axis in decisions.changed(default, setting) for name in axis}
            if setting.precision == "int8":
                changes.add("linear")  # which the recipes quantize
            kind = decisions.pointless(changes, report)
            if kind is None and setting.precision != "fp32" and not self._may_be_unjudged(setting):
                kind = unjudgeable
            found += [Exclusion(group, kind)] if kind is not None else []
        self.exclude(*found)

    def ranked(self) -> Sequence[int]:
        logs = results.logs(self.result)
        return race.ranked({group: logs.get(group, {}) for group in self.found.open()})

    def _may_be_unjudged(self, setting: Setting) -> bool:
        """Whether a candidate may win although its predictions were not found valid; in int8, it never may."""
        return self.found.allow_unjudged and setting.precision != "int8"

    def is_unfit(self, entrant: int) -> bool:
        """Judge a candidate below fp32 that is about to enter the last stage; exclude it if it is not valid."""
        setting = self._settings[entrant]
        if setting.precision == "fp32" or (self._may_be_unjudged(setting) and self.work.judge is None):
            return False
        entry = self.result.judged().get(entrant)
        if entry is None:
            entry = self.judge(setting, entrant)
            self.stored.add(entry)
        kind = decisions.not_valid(entry, allow_unjudged=self._may_be_unjudged(setting))
        self.exclude(*([Exclusion(entrant, kind)] if kind is not None else []))
        return kind is not None

    def choose(self) -> Choice:
        logs, settings = results.logs(self.result), self._settings
        finalists = {group: logs[group] for group in self.found.open() if logs.get(group)}
        changes = {group: len(decisions.changed(settings[0], settings[group])) for group in finalists}
        found = decisions.pick(finalists, changes)
        steps = decisions.steps(settings[0], settings[found.winner])
        return replace(found, steps=tuple(self.stored.group_of(self.work.name, step) for step in steps))

    def rounds(self, entrants: Sequence[int], number: int, left: int) -> int:
        return decisions.stage_rounds(self._costs(entrants), left, self._left(decisions.SEARCH_SHARE)) if number else 1

    def confirmation(self, choice: Choice) -> Stage | None:
        """The winner again, with the default and, if there is time, the steps between them."""
        count, groups = 0, tuple[int, ...]()
        for groups in ((0, *choice.steps), (0, choice.winner)) if choice.winner else ():
            count = decisions.confirmation_rounds(self._costs(groups), self._left())
            if count >= decisions.CONFIRMATION_ROUNDS[0]:
                break
        return self.begin(StageKind.CONFIRMATION, groups, count) if count else None

    # Running

    def next_round(self) -> int:
        return 1 + max((run.round for run in self.result.runs), default=-1)

    def begin(self, kind: StageKind, entrants: tuple[int, ...], rounds: int, seconds: float | None = None) -> Stage:
        samples = [median(run.steady) for run in self.result.runs if run.group == 0 and run.steady]
        wanted = decisions.CONFIRMATION_SECONDS if kind is StageKind.CONFIRMATION else decisions.SAMPLING_SECONDS
        return super().begin(kind, entrants, rounds, max(wanted, decisions.SAMPLES * fmean(samples or [0.0])))

    def measure(self, stage: Stage) -> None:
        """Measure until every setting has as many processes as planned, or the time is up.

        A stage that another one has followed is over, whatever it lacks: its processes would count as the other's.
        """
        if stage != self.found.stages[-1]:
            return
        while block := self._next_block(stage):
            block = self._affordable(stage, block)
            is_search = stage.kind is StageKind.SEARCH
            if not block:
                logs = results.logs(self.result)
                never = [group for group in stage.entrants if group in self.found.open() and not logs.get(group)]
                self.exclude(*(Exclusion(group, ExclusionKind.NOT_MEASURED) for group in never if is_search))
                return
            self._sweep(stage, block)
            groups = self.result.groups()
            unfit = {group: decisions.unfit(groups.get(group, []), groups[0]) for group in block if group and is_search}
            self.exclude(*(Exclusion(group, kind) for group, kind in unfit.items() if kind is not None))
            self.update(spent=self._spent)

    def _next_block(self, stage: Stage) -> list[int]:
        """The settings of the next sweep: those with the fewest processes in this stage, and the default."""
        runs = results.runs_of(self.result, stage)
        counts = Counter(run.group for run in runs)
        out = {each.entrant for each in self.found.excluded}
        if stage.kind is StageKind.CONFIRMATION:  # what reported an error will not run again, see ``Rounds``
            out = {run.group for run in runs if run.error_kind not in (None, WorkerError.__name__)}
        left = [group for group in stage.entrants if group not in out and counts[group] < stage.rounds]
        others = [group for group in left if group]
        if not others:
            # Of a confirmation, the default has as many processes as the others; alone, it is the probe.
            return left if stage.entrants == (0,) else []
        fewest = min(counts[group] for group in others)
        return [0, *[group for group in others if counts[group] == fewest][:BLOCK]]

    def _affordable(self, stage: Stage, block: list[int]) -> list[int]:
        """As much of ``block`` as there is time for; empty if there is none for a single candidate."""
        if stage.kind is StageKind.PROBE:
            return block
        costs = self._costs(block)
        if stage.kind is StageKind.CONFIRMATION:  # the default and the winner belong together
            return block if sum(costs) <= self._left() else []
        left = self._left(decisions.SEARCH_SHARE)
        if stage == self.found.stage(StageKind.SEARCH):
            left -= (1 - decisions.FIRST_SHARE) * decisions.SEARCH_SHARE * self.found.budget
        fitting = sum(total <= left for total in accumulate(costs))
        return block[:fitting] if fitting > 1 else []

    def _sweep(self, stage: Stage, block: Sequence[int]) -> None:
        # The whole grid is prepared together, or what is confirmed.
        is_confirmation = stage.kind is StageKind.CONFIRMATION
        members = stage.entrants if is_confirmation else tuple(range(self.found.candidates))
        if members not in self._rounds:
            chosen = tuple(self._settings[group] for group in members)
            names = dict(zip(labels(chosen), map(self.result.label, members)))

            def on_event(event: Event) -> None:
                self.on_event(replace(event, label=names.get(event.label, event.label)))

            self._rounds[members] = Rounds(Request(self.work, chosen, Plan(), timeout=self.timeout), on_event)
        offset: int | None = None
        assert stage.seconds is not None
        for run in self._rounds[members].sweep(stage.seconds, among=[members.index(group) for group in block]):
            if offset is None:
                offset = self.next_round() - run.round
            moved = replace(run, group=members[run.group], round=run.round + offset)
            self.stored.add(moved)
            self.on_run(moved)
            if moved.group == 0 and moved.error is not None:
                raise WorkerError(f"the default setting failed: {moved.error}")

    @property
    def _settings(self) -> list[Setting]:
        return [requested.setting for requested in self.result.requested]

    def _costs(self, groups: Sequence[int]) -> list[float]:
        """The seconds of the next process of each of these settings."""
        costs = decisions.costs(self.result.runs, self._settings)
        return [costs[group] for group in groups]

    @property
    def _spent(self) -> float:
        """Seconds of wall time so far, those before an interruption included."""
        return self._before + perf_counter() - self._started

    def _left(self, share: float = 1.0) -> float:
        """What is left of a share of the budget, in seconds."""
        return max(0.0, share * self.found.budget - self._spent)

"""Measure configurations in interleaved rounds; of many, keep the faster half after each stage; measure the best again.

All that is known stands in the stored result, which is written after every configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from modelzoo.errors import KINDS, ModelzooError, UsageError
from modelzoo.frozen import replace
from modelzoo.machine.cpu import available_memory
from modelzoo.measure.jobs import OnEvent, Request, prepare, required
from modelzoo.records.machine import fingerprint
from modelzoo.records.protocol import Preparation
from modelzoo.records.run import Run, RunReport
from modelzoo.records.throughput import (
    CannotRun,
    ConfigurationRun,
    Confirmation,
    Dropped,
    OverBound,
    Slower,
    Throughput,
    TooLarge,
)
from modelzoo.results import throughput as results
from modelzoo.results.counting import NO_WINDOW, rate
from modelzoo.results.store import ResultFile
from modelzoo.serve.round import (
    BOUND_SECONDS,
    LEAST_SECONDS,
    SETTLING_SECONDS,
    RoundResult,
    Task,
    run_configuration,
    worker_problem,
)
from modelzoo.stats import race


def least_effort(found: Throughput, seconds: float | None) -> tuple[int, float]:
    """Return how often configurations are run at least, and how many seconds they run together in all of that.

    Args:
        found: before anything has run.
        seconds: length of a counted run; ``None``: as long as enough batches take.
    """
    count, rounds = len(found.configurations), found.rounds
    stages = race.sizes(count) if found.is_search else [count]
    runs = sum(size * (number + 1) for number, size in enumerate(stages[:-1])) + stages[-1] * rounds
    runs += rounds if count > 1 else 0
    counted = (LEAST_SECONDS if found.bound is None else BOUND_SECONDS) if seconds is None else seconds
    return runs, runs * (SETTLING_SECONDS + counted)


Runner = Callable[[Task, OnEvent], RoundResult]


@dataclass
class Search:
    """The measurement of all configurations of one workload.

    Attributes:
        request: the workload and the distinct settings of its configurations.
        stored: the result so far, which holds the configurations.
        seconds: length of a counted run; ``None``: as long as enough batches take.
        on_event: called with the progress of instances.
        on_run: called with each round of a configuration that has ended.
        runner: runs a configuration once, in place of real instances.
        memory: bytes of memory that new processes may use.
    """

    request: Request
    stored: ResultFile
    seconds: float | None
    on_event: OnEvent
    on_run: Callable[[ConfigurationRun], None] = lambda run: None
    runner: Runner | None = None
    memory: Callable[[], int] = available_memory
    _prepared: tuple[Preparation, ...] = ()
    _rounds: int = field(default=0)

    @property
    def found(self) -> Throughput:
        """What is known so far."""
        return results.of(self.stored.result)

    def run(self) -> None:
        """Measure to the end.

        Raises:
            ModelzooError: no setting can run.
            UsageError: the result cannot be written.
        """
        self._prepared = prepare(self.request, self.on_event)
        for index, each in enumerate(self.found.configurations):
            error = self._prepared[each.group].error
            if error is not None:
                self._drop(Dropped(index, CannotRun(error)))
        if not self.found.open():
            required(self._prepared[self.found.configurations[0].group])
        # Of a search, the configurations are halved until few are left, which are then measured in all rounds.
        sizes = race.sizes(len(self.found.open())) if self.found.is_search else [len(self.found.open())]
        for number, size in enumerate(sizes):
            is_last = number == len(sizes) - 1
            if self.found.is_search:
                self._keep(size)
                self.stored.set_payload(replace(self.found, final_round=self._rounds if is_last else 0))
            for _ in range(self.found.rounds if is_last else number + 1):
                self._round(self.found.open())
        self._confirm()
        self.stored.set_payload(replace(self.found, is_complete=True))

    # Rounds

    def _keep(self, size: int) -> None:
        """Drop all but ``size`` configurations: first what does not meet the bound, then the slower ones.

        The single instance that others are compared with stays, but is measured in the last stage only with them.
        """
        if not self._rounds:
            return
        rows = [row for row in results.rows(self.stored.result) if row.is_final and row.throughput is not None]
        reference = {results.single(self.found, row.index) for row in rows}
        speeds = {row.index: race.speed(row.logs) for row in rows}
        order = sorted(rows, key=lambda row: (not row.is_over, speeds[row.index]), reverse=True)
        for row in order[size:]:
            if row.index not in reference:
                slower = Slower(speeds[row.index] / speeds[order[0].index], order[0].index)
                self._drop(Dropped(row.index, OverBound(row.bounded) if row.is_over else slower))

    def _round(self, order: Sequence[int]) -> None:
        """Run these configurations once, in alternating order."""
        for index in order if self._rounds % 2 == 0 else reversed(order):
            self._run_once(index)
        self._rounds += 1

    def _confirm(self) -> None:
        """Measure the best configuration in as many rounds again, beside the single instance that it is compared with.

        The choice took the luckiest of several, so its own rounds flatter it. The number of rounds is fixed before the
        first of them, so the data cannot decide when to stop.
        """
        rows = results.rows(self.stored.result)
        best = results.best(rows, self.found.bound)
        if best is None or not results.is_choice(rows):
            return
        single = results.single(self.found, best.index)
        baseline = single if single is not None and rows[single].throughput is not None else None
        planned = Confirmation(best.index, baseline, self._rounds, self.found.rounds)
        self.stored.set_payload(replace(self.found, confirmation=planned))
        for _ in range(planned.rounds):
            self._round([best.index] if baseline is None else [baseline, best.index])

    def _run_once(self, index: int) -> None:
        too_large = self._too_large(index)
        if too_large is not None:
            self._drop(Dropped(index, too_large))
            return
        found, configuration = self.found, self.found.configurations[index]
        needs_context = results.context(self.stored.result, configuration.group) is None
        task = Task(
            self.request, self._prepared, configuration, index, self._rounds, self.seconds, needs_context, found.bound
        )
        outcome = (self.runner or run_configuration)(task, self.on_event)
        self.stored.set_payload(found.plus(outcome.run))
        if outcome.context is not None:
            requested = self.stored.result.requested[configuration.group]
            self.stored.add_run(
                Run(
                    workload=requested.workload,
                    group=configuration.group,
                    requested=requested.setting,
                    round=self._rounds,
                    started=outcome.run.started,
                    ended=outcome.run.ended,
                    report=_of_whole_machine(outcome.context, found),
                )
            )
        problem = worker_problem(outcome.run)
        if problem is not None:
            self._drop(Dropped(index, CannotRun(problem)))
        self.on_run(outcome.run)

    def _too_large(self, index: int) -> TooLarge | None:
        """How much memory the instances lack, by what those of other rounds occupied; ``None`` if they fit."""
        found, own = self.found, self.found.configurations[index]
        known: list[int] = []
        for run in found.runs:
            if found.configurations[run.configuration].batch != own.batch:
                continue
            for each in run.instances:
                # What only this instance occupied; all of it if what it shared is not known.
                if each.placement is not None and each.placement.memory:
                    known.append(sum(node.private for node in each.placement.memory))
                elif each.peak_memory is not None:
                    known.append(each.peak_memory)
        if not known:
            return None
        needed, available = own.instances * max(known), self.memory()
        return TooLarge(needed, available) if needed > available else None

    def _drop(self, dropped: Dropped) -> None:
        self.stored.set_payload(self.found.dropping(dropped))


def _of_whole_machine(report: RunReport, found: Throughput) -> RunReport:
    """The report of an instance, which sees its own CPUs only, with what the whole machine may use."""
    whole = found.machine
    machine = replace(
        report.provenance.machine, threads=whole.threads, numa_allowed=whole.numa_allowed, nodes=whole.nodes
    )
    provenance = replace(report.provenance, machine=machine, fingerprint=fingerprint(machine))
    return replace(report, provenance=provenance, ceilings=found.ceilings)


def failure(stored: ResultFile) -> ModelzooError | None:
    """The error of a measurement in which nothing ran; ``None`` if anything did."""
    found = results.of(stored.result)
    if any(rate(run, found.configurations[run.configuration].batch) is not None for run in found.runs):
        return None
    errors = [each for run in found.runs for each in run.instances if each.error is not None]
    if errors:
        return KINDS.get(errors[0].error_kind or "", ModelzooError)(errors[0].error)
    for each in found.dropped:
        if isinstance(each.reason, CannotRun):
            return ModelzooError(each.reason.problem)
    return UsageError(NO_WINDOW) if found.runs else None

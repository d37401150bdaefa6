"""Measure configurations of instances: the race in which each of them runs once in every round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelzoo.errors import KINDS, ModelzooError, UsageError
from modelzoo.frozen import replace
from modelzoo.machine.cpu import available_memory
from modelzoo.measure.jobs import OnEvent, Request, prepare, required
from modelzoo.records.machine import fingerprint
from modelzoo.records.protocol import Preparation
from modelzoo.records.race import ConfigurationRun, Exclusion, ExclusionKind, Stage, StageKind, Throughput
from modelzoo.records.run import Run, RunReport
from modelzoo.results import throughput as results
from modelzoo.results.counting import NO_WINDOW, rate
from modelzoo.results.store import ResultFile
from modelzoo.results.throughput import Row
from modelzoo.serve.round import (
    BOUND_SECONDS,
    LEAST_SECONDS,
    SETTLING_SECONDS,
    Task,
    run_configuration,
    worker_problem,
)
from modelzoo.stats import race
from modelzoo.stats.race import Choice
from modelzoo.tuning.driver import Driver


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


@dataclass
class Search(Driver[Throughput]):
    """The measurement of all configurations of one workload, which are halved only if that is what was asked for.

    Attributes:
        stored: the result so far, which holds the configurations.
        request: the workload and the distinct settings of its configurations.
        seconds: length of a counted run; ``None``: as long as enough batches take.
        on_event: called with the progress of instances.
        on_run: called with each round of a configuration that has ended.
    """

    request: Request
    seconds: float | None
    on_event: OnEvent
    on_run: Callable[[ConfigurationRun], None] = lambda run: None
    _prepared: tuple[Preparation, ...] = ()

    @property
    def found(self) -> Throughput:
        return results.of(self.stored.result)

    def prepare(self) -> None:
        """Exclude what cannot run; raises ``ModelzooError`` if that is everything."""
        self._prepared = prepare(self.request, self.on_event)
        errors = [(index, self._prepared[each.group].error) for index, each in enumerate(self.found.configurations)]
        self.exclude(*(Exclusion(index, ExclusionKind.FAILED, error) for index, error in errors if error is not None))
        if not self.found.open():
            required(self._prepared[self.found.configurations[0].group])

    def sizes(self, entrants: int) -> Sequence[int]:
        return race.sizes(entrants) if self.found.is_search else [entrants]

    def rounds(self, entrants: Sequence[int], number: int, left: int) -> int:
        return self.found.rounds if left == 1 else number + 1

    def next_round(self) -> int:
        return 1 + max((run.round for run in self.found.runs), default=-1)

    def _rows(self) -> list[Row]:
        return [row for row in results.rows(self.stored.result) if row.is_final and row.throughput is not None]

    def ranked(self) -> Sequence[int]:
        """What meets the bound first, the fastest of it first."""
        order = sorted(self._rows(), key=lambda row: (not row.is_over, race.speed(row.logs)), reverse=True)
        return [row.index for row in order]

    def behind(self, entrant: int) -> ExclusionKind | None:
        """A single instance that others are compared with stays, and is measured in the last stage only with them."""
        rows = self._rows()
        if entrant in {results.single(self.found, row.index) for row in rows}:
            return None
        is_over = any(row.is_over for row in rows if row.index == entrant)
        return ExclusionKind.OVER_BOUND if is_over else ExclusionKind.SLOWER

    def choose(self) -> Choice | None:
        rows = results.rows(self.stored.result)
        return results.choice(rows, self.found.bound) if results.is_choice(rows) else None

    def confirmation(self, choice: Choice) -> Stage:
        """The best configuration in as many rounds again, beside the single instance that it is compared with."""
        single = results.single(self.found, choice.winner)
        is_timed = any(row.index == single and row.throughput is not None for row in results.rows(self.stored.result))
        baseline = (single,) if single is not None and is_timed else ()
        return self.begin(StageKind.CONFIRMATION, (*baseline, choice.winner), self.found.rounds)

    def measure(self, stage: Stage) -> None:
        """Run the configurations of a stage once in each round, in alternating order."""
        for number in range(stage.first_round, stage.first_round + stage.rounds):
            order = [
                index for index in stage.entrants if stage.kind is StageKind.CONFIRMATION or index in self.found.open()
            ]
            for index in order if number % 2 == 0 else reversed(order):
                self._run_once(index, number)

    def _run_once(self, index: int, number: int) -> None:
        if (needed := self._needed(index)) > (available := available_memory()):
            self.exclude(Exclusion(index, ExclusionKind.TOO_LARGE, needed=needed, available=available))
            return
        found, configuration = self.found, self.found.configurations[index]
        needs_context = results.context(self.stored.result, configuration.group) is None
        task = Task(
            self.request, self._prepared, configuration, index, number, self.seconds, needs_context, found.bound
        )
        run, context = run_configuration(task, self.on_event)
        self.update(runs=(*found.runs, run))
        if context is not None:
            requested = self.stored.result.requested[configuration.group]
            self.stored.add(
                Run(
                    workload=requested.workload,
                    group=configuration.group,
                    requested=requested.setting,
                    round=number,
                    started=run.started,
                    ended=run.ended,
                    report=_of_whole_machine(context, found),
                )
            )
        problem = worker_problem(run)
        if problem is not None:
            self.exclude(Exclusion(index, ExclusionKind.FAILED, problem))
        self.on_run(run)

    def _needed(self, index: int) -> int:
        """How much memory the instances need, by what those of other rounds occupied; 0 if that is not known."""
        found, own = self.found, self.found.configurations[index]
        known = [0]
        for run in found.runs:
            if found.configurations[run.configuration].batch != own.batch:
                continue
            for each in run.instances:
                # What only this instance occupied; all of it if what it shared is not known.
                if each.placement is not None and each.placement.memory:
                    known.append(sum(node.private for node in each.placement.memory))
                elif each.peak_memory is not None:
                    known.append(each.peak_memory)
        return own.instances * max(known)


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
    for each in found.excluded:
        if each.problem is not None:
            return ModelzooError(each.problem)
    return UsageError(NO_WINDOW) if found.runs else None

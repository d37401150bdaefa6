"""Simulated processes of a search: how fast a setting is, and what a process costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from fake_runs import evidence, make

from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.setting import Setting

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass
class Machine:
    """A simulated machine: how long a batch takes by setting, and what a process costs."""

    seconds: Callable[[Setting, int], float]
    cost: float = 5.0
    changes: Callable[[Setting], dict[str, Any]] = lambda setting: {}
    error: Callable[[Setting], str | None] = lambda setting: None
    kind: str = "WorkerError"
    stops_after: int = 10**6
    now: float = 0.0
    ran: list[tuple[str, int]] = field(default_factory=list)

    def rounds(self, request: Any, on_event: Any) -> Any:
        """What stands for ``modelzoo.measure.rounds.Rounds``."""
        return SimulatedRounds(self, request)

    def process(self, setting: Setting, group: int, number: int) -> Run:
        """Run one process; after as many as it is to run, the user presses Ctrl-C."""
        if len(self.ran) == self.stops_after:
            raise KeyboardInterrupt
        self.ran.append((setting.label, number))
        started = BEGIN + timedelta(seconds=self.now)
        self.now += self.cost
        ended = BEGIN + timedelta(seconds=self.now)
        verdict = ProofVerdict.FP32 if setting.precision == "fp32" else ProofVerdict.ACTIVE
        reported = {"evidence": evidence(verdict), **self.changes(setting)}
        level = self.seconds(setting, number)
        run = make(
            [level] * 3,
            workload="mlp",
            setting=setting,
            group=group,
            round=number,
            error=self.error(setting),
            kind=self.kind,
            **reported,
        )
        return replace(run, started=started.isoformat(), ended=ended.isoformat())


@dataclass
class SimulatedRounds:
    """Every sweep is one round. A setting that reported an error is not tried again, as in ``Rounds``."""

    machine: Machine
    request: Any
    round: int = 0
    over: set[int] = field(default_factory=set)

    def sweep(self, seconds: float, among: Collection[int] | None = None) -> Iterator[Run]:
        for index in range(len(self.request.settings)) if among is None else among:
            if index not in self.over:
                run = self.machine.process(self.request.settings[index], index, self.round)
                if run.error_kind not in (None, "WorkerError"):
                    self.over.add(index)
                yield run
        self.round += 1


def speeds(**factors: float) -> Callable[[Setting, int], float]:
    """A second per batch, divided by the factor of the setting's mode or precision; noise of ±1 % by round."""

    def level(setting: Setting, number: int) -> float:
        noise = 1 + 0.01 * ((number * 7 + len(setting.label)) % 3 - 1)
        return noise / (factors.get(setting.mode, 1.0) * factors.get(setting.precision, 1.0))

    return level

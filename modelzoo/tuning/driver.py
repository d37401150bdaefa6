"""Run a race: measure entrants in stages, keep the faster half after each, choose, and measure the choice again.

All that is known stands in the stored result, which is written whenever something is added. A race that was
interrupted goes on from there: which stage it was in, and what is left of it, follows from the result alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from modelzoo.frozen import replace
from modelzoo.records.race import Exclusion, ExclusionKind, Stage, StageKind, Throughput, Tuning
from modelzoo.results.store import ResultFile
from modelzoo.stats import race
from modelzoo.stats.race import Choice

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

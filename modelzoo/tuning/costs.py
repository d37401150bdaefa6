"""What a process of each setting costs, for planning. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from modelzoo.records.run import Run
from modelzoo.setting import Setting

COMPILED = 4.0
"""A process that compiles is taken to cost this many times as much as one of the default, until one was measured."""


@dataclass(frozen=True)
class Costs:
    """Seconds of wall time per process.

    Attributes:
        known: of the settings that were measured, by group: of their latest process.
        expected: of all settings, as long as nothing is known of them, by group.
    """

    known: Mapping[int, float]
    expected: Mapping[int, float]

    @classmethod
    def read(cls, runs: Sequence[Run], settings: Sequence[Setting]) -> Costs:
        """Return what the runs so far say. Later processes cost less: what was compiled or exported is in a cache."""
        rounds: dict[int, list[Run]] = {}
        for run in runs:
            rounds.setdefault(run.round, []).append(run)
        known: dict[int, float] = {}
        for number in sorted(rounds):
            known.update(_shares(rounds[number]))
        plain = known.get(0, 0.0)
        expected = {}
        for group, setting in enumerate(settings):
            alike = [known[other] for other, each in enumerate(settings) if other in known and _is_alike(each, setting)]
            default = plain * (1.0 if setting.mode == "eager" else COMPILED)
            expected[group] = sum(alike) / len(alike) if alike else default
        return cls(known, expected)

    def of(self, group: int) -> float:
        """Seconds of the next process of this setting."""
        return self.known.get(group, self.expected[group])


def _is_alike(one: Setting, other: Setting) -> bool:
    return (one.engine, one.mode) == (other.engine, other.mode)


def _shares(runs: Sequence[Run]) -> dict[int, float]:
    """Divide the wall time of a round: everyone has its own compiling, and an equal part of the rest."""
    ended = [_seconds(run.ended) for run in runs if run.ended]
    wall = max(ended, default=0.0) - min(_seconds(run.started) for run in runs)
    compiling = {run.group: (run.report.compile_seconds or 0.0) if run.report is not None else 0.0 for run in runs}
    rest = max(0.0, wall - sum(compiling.values())) / len(runs)
    return {group: seconds + rest for group, seconds in compiling.items()}


def _seconds(iso: str | None) -> float:
    return datetime.fromisoformat(iso).timestamp() if iso else 0.0

"""Made-up results that lack nothing: proven precision, digests of weights and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fake_runs import evidence, make, result_of

from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.results import store
from modelzoo.setting import Setting

FP32, BF16 = Setting(), Setting("bf16")
PROVEN = {"fp32": ProofVerdict.FP32, "bf16": ProofVerdict.ACTIVE}


def proven(seconds: float, number: int = 0, setting: Setting = FP32, workload: str = "toy", **changes: Any) -> Run:
    """A process with six equal samples, audited, whose precision is proven."""
    what = {"evidence": evidence(PROVEN[setting.precision]), "inputs_digest": "def", **changes}
    return make([seconds] * 6, workload=workload, setting=setting, round=number, **what)


def session(level: float = 0.1, day: int = 1, *, processes: int = 8, **changes: Any) -> Result:
    """As ``session_of``, of the toy in fp32 only."""
    return session_of([("toy", FP32, level)], day, processes=processes, **changes)


def session_of(
    levels: Sequence[tuple[str, Setting, float]], day: int = 1, *, processes: int = 8, **changes: Any
) -> Result:
    """The session of this day of March, with processes that spread over 2 % around the level of their group."""
    middle = (processes - 1) / 2
    runs = [
        replace(proven(level * (1 + 0.003 * (number - middle)), number, setting, workload, **changes), group=group)
        for group, (workload, setting, level) in enumerate(levels)
        for number in range(processes)
    ]
    requested = [SettingRequest(workload, setting) for workload, setting, _ in levels]
    return replace(result_of(*runs, requested=requested), created=f"2026-03-{day:02}T00:00:00+00:00")


def side(name: str, *results: Result) -> Side:
    return make_side(name, [StoredResult(f"{name}/{i}.json", result) for i, result in enumerate(results, 1)])


def sessions(level: float, count: int = 3, first_day: int = 1, **changes: Any) -> list[Result]:
    """Sessions of the toy whose levels spread over 1 % around ``level``."""
    middle = (count - 1) / 2
    return [session(level * (1 + 0.005 * (i - middle)), first_day + i, **changes) for i in range(count)]


def written(directory: Path, *results: Result) -> Path:
    for number, result in enumerate(results, 1):
        store.write(result, directory / f"{number}.json")
    return directory

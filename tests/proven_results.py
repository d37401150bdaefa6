"""Made-up results, sides and hosts that are compared: with proven precision and digests, or with times alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fake_runs import MACHINE, evidence, make, result_of

from modelzoo.comparison.estimate import Row, Side, StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.fleet.hosts import HostResult
from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence, OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.machine import Machine
from modelzoo.records.run import Latency, Result, Run, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.results import store
from modelzoo.results.refusals import SideSetting
from modelzoo.results.speed import Speed
from modelzoo.setting import Setting
from modelzoo.stats import Basis, Interval, Outcome, Ratio, Spread, Verdict

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


def plain_session(processes: Sequence[float], day: int = 1, **changes: Any) -> Result:
    """The session of this day of July: one process of three equal samples for each of ``processes`` (seconds)."""
    runs = [make([seconds] * 3, round=number, **changes) for number, seconds in enumerate(processes)]
    return replace(result_of(*runs), created=f"2026-07-{day:02}T00:00:00+00:00")


def side_setting(*results: Result) -> SideSetting:
    """The only setting of these sessions."""
    first = results[0].runs[0]
    runs = tuple(result.runs for result in results)
    return SideSetting(first.workload, first.requested, "fp32", runs, results)


def side_of(name: str, *runs: Run) -> Side:
    """A side that is one session with these runs."""
    return Side(name, (StoredResult(f"{name}.json", result_of(*runs)),))


def row_of(base: SideSetting, other: SideSetting, *, spread: float = 0.1, outcome: Outcome = Outcome.FASTER) -> Row:
    """A row that was compared by latency: of 2 s and 1 s, each within ``spread`` of its logarithm."""
    base_value, other_value = (Interval(value, value * math.exp(-spread), value * math.exp(spread)) for value in (2, 1))
    interval = Interval(2, 2 * math.exp(-2 * spread), 2 * math.exp(2 * spread))
    return Row(
        workload=base.workload,
        label=base.label,
        other_label=base.label,
        base=base,
        other=other,
        base_value=base_value,
        other_value=other_value,
        speed=Speed(Ratio(interval, 0.001, spreads=(Spread(Basis.ASSUMED, 0.1),)), Verdict(outcome)),
    )


PERFORMANCE = replace(MACHINE, governor="performance")


def host(rank: int, seconds: float, machine: Machine = PERFORMANCE) -> HostResult:
    """A host whose processes all took about ``seconds`` per batch."""
    runs = [make([seconds * (1 + 0.001 * number)] * 3, round=number, machine=machine) for number in range(3)]
    return HostResult(f"host-{rank}", result_of(*runs))


def timed(rank: int, seconds: Mapping[str, float]) -> HostResult:
    """A host that was timed in several precisions."""
    runs = [
        make([value * (1 + 0.001 * number)] * 3, round=number, machine=PERFORMANCE, group=group, setting=Setting(name))
        for group, (name, value) in enumerate(seconds.items())
        for number in range(3)
    ]
    return HostResult(f"host-{rank}", result_of(*runs))


def wobble(rank: int, seconds: float = 0.1) -> float:
    """Equal hosts differ by half a per cent."""
    return seconds * math.exp(0.005 * math.sin(3 * rank))


def fleet(slow: HostResult) -> list[HostResult]:
    """Nine equal hosts, which differ by half a per cent, and one more."""
    return [*(host(rank, wobble(rank)) for rank in range(9)), slow]


BASE = Setting(python="/envs/torch-2.13.0/bin/python")
HEAD = Setting(python="/envs/torch-2.14.1/bin/python")
SHAPES = ((1, 64, 56, 56), (64, 64, 3, 3))
CLASSIFIER = ((1, 2048), (2048, 1000))


def checked(
    ratios: dict[str, Sequence[float]],
    *,
    base: dict[str, Any] | None = None,
    head: dict[str, Any] | None = None,
    looks: tuple[int, ...] = (),
    stop: StopReason = StopReason.BUDGET,
) -> Result:
    """The result of a check: of each workload, how many times longer head takes in each round."""
    runs, requested, designs = [], [], []
    for workload, each in ratios.items():
        group = len(requested)
        requested += [SettingRequest(workload, BASE), SettingRequest(workload, HEAD)]
        for number, ratio in enumerate(each):
            level = 0.1 * (1 + 0.01 * (number % 3))
            first = proven(level, number, BASE, workload, **(base or {}))
            second = proven(level * ratio, number, HEAD, workload, **(head or {}))
            runs += [replace(first, group=group), replace(second, group=group + 1)]
        maximum = looks[-1] if looks else len(each)
        designs.append(Design(workload, 0.05, 60.0, None, looks=looks, maximum=maximum, stop_reason=stop))
    return replace(result_of(*runs, requested=requested), payload=Latency(designs=tuple(designs)))


def use(kernel: str, shapes: tuple[tuple[int, ...], ...] = SHAPES, seconds: float = 0.2, **changes: Any) -> OperatorUse:
    """A convolution whose shapes were computed in ``kernel``, four times in two passes."""
    found = OperatorUse(
        operator="aten::mkldnn_convolution",
        operator_class=OperatorClass.CONV,
        shapes=shapes,
        implementation=kernel,
        precision="fp32",
        decided_by=ProofSource.BOTH,
        count=4,
        seconds=seconds,
        kernel_seconds=seconds,
    )
    return replace(found, **changes)


def audited(*uses: OperatorUse) -> Evidence:
    """Two audited passes with these products, in fp32."""
    return replace(evidence(ProofVerdict.FP32), operators=uses)

"""A stored search, for tests of what is made of one."""

from __future__ import annotations

from fake_runs import evidence, make

from modelzoo.frozen import replace
from modelzoo.plan import Goal
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.race import Exclusion, ExclusionKind, Stage, StageKind, Tuning
from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.setting import Setting
from modelzoo.stats.race import Choice

SETTINGS = (Setting(), Setting(mode="compile"), Setting(mode="compile", channels_last=True), Setting(mode="script"))
STAGES = (
    Stage(StageKind.PROBE, (0,), 1, 2.0, 0),
    Stage(StageKind.SEARCH, (0, 1, 2, 3), 1, 2.0, 1),
    Stage(StageKind.SEARCH, (0, 1, 2), 1, 2.0, 2),
    Stage(StageKind.CONFIRMATION, (0, 1, 2), 4, 3.0, 3),
)
TUNING = Tuning(
    "toy",
    Goal.LATENCY,
    600.0,
    4,
    stages=STAGES,
    excluded=(Exclusion(3, ExclusionKind.SLOWER),),
    choice=Choice(winner=2, best=2, ties=(1,), steps=(1, 2)),
    spent=300.0,
    is_complete=True,
)


def process(group: int, number: int, seconds: float, batch: int = 1) -> Run:
    """One process of a batch; the middle one of its samples counts."""
    setting = SETTINGS[group].replace(batch=batch)
    proof = evidence(ProofVerdict.FP32)
    return make([seconds * 0.9, seconds, seconds * 1.5], setting=setting, group=group, round=number, evidence=proof)


def searched(**changes: object) -> Result:
    """A search in which compiling doubled the speed, and seemed to do more before the confirmation."""
    runs = [process(0, 0, 1.0)]
    runs += [process(group, 1, seconds) for group, seconds in enumerate((1.0, 0.4, 0.4, 1.25))]
    runs += [process(group, 2, seconds) for group, seconds in enumerate((1.1, 0.44, 0.44))]
    for number in range(3, 7):
        factor = 1 + 0.01 * (number % 2)
        runs += [process(0, number, 1.0), process(1, number, 0.5 * factor), process(2, number, 0.4 / factor)]
    requested = tuple(SettingRequest("toy", setting) for setting in SETTINGS)
    return Result(
        ("modelzoo", "tune"), "2026-01-01T00:00:00+00:00", requested, tuple(runs), payload=replace(TUNING, **changes)
    )

"""Each condition of a run has its own warning; a good run has none."""

from __future__ import annotations

import pytest
from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import changed

from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.measure.reporting import run_warnings
from modelzoo.plan import Plan
from modelzoo.records.accelerator import Accelerator, AcceleratorUse, Phase, Reading
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.machine import CpuUsage
from modelzoo.records.run import EnvironmentChanges, Observed, Prepared, Provenance, RunReport
from modelzoo.records.timing import Role, SamplingStop, Series, Timing, WarmUpEnd
from modelzoo.records.workload import Count, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting

PRETRAINED = Weights(WeightsKind.PRETRAINED, "", "", "")
RANDOM = replace(PRETRAINED, kind=WeightsKind.RANDOM)
IDLE = CpuUsage(10.0, 2.0, 0.0, 0.0, 0.01, 0, 0, 0.0)
FP32 = ResolvedSetting(threads=1)
BF16 = ResolvedSetting("bf16", "autocast", threads=1)
TF32 = ResolvedSetting("tf32", threads=1, device="cuda")
GPU = AcceleratorUse(Accelerator("cuda", 0, "a GPU"), readings=(Reading(Phase.STEADY, 9, throttled=("power cap",)),))
BOXES = Count("boxes", 5000, 450, 3200, "a source")


def timing(samples: tuple[float, ...] = (1.0,) * 40) -> Timing:
    """Forty equal samples after a warm-up that settled."""
    series = (Series("latency", "s", Role.LATENCY, samples),)
    return Timing(1.0, (1.0,) * 10, series, "latency", WarmUpEnd.SETTLED, SamplingStop.INTERVAL)


def report(**changes: object) -> RunReport:
    """A good run, but for ``changes``."""
    setting = changes.get("setting", FP32)
    good = RunReport(
        workload="toy",
        title="a toy",
        unit="rows",
        prepared=Prepared(FP32, PRETRAINED),
        provenance=Provenance(replace(read_machine(), has_bf16=True, emulator=None)),
        plan=Plan(),
        items=(),
        import_seconds=1.0,
        build_seconds=1.0,
        compile_seconds=None,
        switches=(),
        timing=timing(),
        usage=IDLE,
        observed=Observed(Canary(()), canary_verdict=CanaryVerdict.ACTIVE if setting is BF16 else CanaryVerdict.FP32),
        peak_memory=0,
    )
    return changed(good, **changes)


def codes(**changes: object) -> list[str]:
    """Codes of the warnings of such a run."""
    return [warning.code for warning in run_warnings(report(**changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"setting": BF16}, []),
        ({"weights": RANDOM}, ["RANDOM_WEIGHTS"]),
        ({"canary_verdict": CanaryVerdict.NOT_FP32}, ["FP32_NOT_FP32"]),
        ({"setting": BF16, "canary_verdict": CanaryVerdict.PARTLY}, ["BF16_PARTLY"]),
        ({"setting": BF16, "canary_verdict": CanaryVerdict.NOT_ACTIVE}, ["BF16_NOT_ACTIVE"]),
        ({"counts": (BOXES,)}, []),
        ({"counts": (BOXES,), "weights": RANDOM}, ["RANDOM_WEIGHTS", "MISMATCHED_COUNTS"]),
        ({"setting": FP32.replace(threads=10_000)}, ["OVERSUBSCRIBED"]),
        ({"usage": replace(IDLE, other_cores=0.5)}, ["OTHER_LOAD"]),
        ({"usage": replace(IDLE, steal_percent=5.0)}, ["STOLEN_TIME"]),
        ({"timing": replace(timing(), warmup_end=WarmUpEnd.CAP)}, ["WARMUP_CAP"]),
        ({"timing": timing((1.0,) * 2)}, ["FEW_SAMPLES"]),
        ({"timing": timing((1.0,) * 40 + (9.0,))}, ["OUTLIERS"]),
        ({"environment": EnvironmentChanges({"DNNL_DEFAULT_FPMATH_MODE": "BF16"}, {})}, ["SCRUBBED_VARIABLES"]),
        ({"environment": EnvironmentChanges({"LD_PRELOAD": "libtcmalloc.so.4"}, {})}, []),
        ({"setting": FP32.replace(thp="on"), "usage": replace(IDLE, huge_pages=0)}, ["HUGE_PAGES_UNUSED"]),
        ({"setting": FP32.replace(thp="on"), "usage": replace(IDLE, huge_pages=2**21)}, []),
        ({"agreement": OTHER}, ["OTHER_OUTPUTS"]),
        (exported(OTHER), ["OTHER_OUTPUTS"]),
        (exported(SAME), []),
        (exported(IN_BF16), []),
        ({"setting": FP32.replace(thp="off"), "usage": replace(IDLE, huge_pages=0)}, []),
        ({"accelerator": GPU}, []),
        ({"accelerator": replace(GPU, throttled_samples=(3, 4))}, ["DEVICE_THROTTLED"]),
        ({"setting": TF32, "canary_verdict": CanaryVerdict.NOT_ACTIVE}, ["BF16_NOT_ACTIVE"]),
    ],
)
def test_a_run_warns_of_what_distorts_it_and_of_nothing_else(
    changes: dict[str, object], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each condition has its own warning; a good run has none."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert codes(**changes) == expected


def test_a_wait_policy_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes the speed of short operators."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert codes() == ["WAIT_POLICY"]


def test_other_load_is_not_reported_under_an_emulator() -> None:
    """The emulator itself would count as another program; nothing is timed there."""
    machine = replace(read_machine(), emulator="qemu-user")
    assert codes(machine=machine, timing=None, usage=replace(IDLE, other_cores=1.8)) == ["EMULATED"]

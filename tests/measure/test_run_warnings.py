"""Each condition of a run has its own warning; a good run has none."""

from __future__ import annotations

from typing import Any

import pytest
from example_machine import CEILINGS, LIBRARIES, OPENBLAS, machine_with
from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import evidence, make

from modelzoo.frozen import replace
from modelzoo.measure.reporting import run_warnings
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.equipment import Accelerator, AcceleratorUse, ComputeLibrary, Reading
from modelzoo.records.evidence import OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.machine import CpuUsage, NumaNode, Threads
from modelzoo.records.profile import Gemm
from modelzoo.records.run import EnvironmentChanges, Turn
from modelzoo.records.timing import Series, Timing
from modelzoo.records.workload import Count, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting

PRETRAINED = Weights(WeightsKind.PRETRAINED, "", "", "")
RANDOM = replace(PRETRAINED, kind=WeightsKind.RANDOM)
IDLE = CpuUsage(10.0, 2.0, 0.0, 0.0, 0.01, 0, 0, 0.0)
FP32 = ResolvedSetting(threads=1)
BF16 = ResolvedSetting("bf16", "autocast", threads=1)
TF32 = ResolvedSetting("tf32", threads=1, device="cuda")
GPU = AcceleratorUse(Accelerator("cuda", 0, "a GPU"), readings=(Reading("steady", 9, throttled=("power cap",)),))
BOXES = Count("boxes", 5000, 450, 3200, "a source")
WORKERS_OWN = machine_with(environment={"OMP_NUM_THREADS": "10000", "DNNL_DEFAULT_FPMATH_MODE": "BF16"})
HASWELL = machine_with(environment={"OPENBLAS_CORETYPE": "Haswell"})
EMULATED = machine_with(emulator="qemu-user", governor="powersave")
SLOW_BF16 = replace(CEILINGS, gemm=(Gemm("fp32", 8, 2048, "mm", 300.0), Gemm("bf16", 8, 2048, "mm", 100.0)))

MANY_CORES = machine_with(threads=Threads(192, 192, 192, None))


def openblas(threads: int, owner: str = "torch") -> dict[str, object]:
    """So many threads on many cores, with an OpenBLAS that was built for 128."""
    libraries = replace(LIBRARIES, loaded=(replace(OPENBLAS, owner=owner),))
    return {"machine": MANY_CORES, "libraries": libraries, "setting": FP32.replace(threads=threads)}


def acl(version: str | None, architecture: str = "aarch64", **setting: object) -> dict[str, object]:
    """bf16 in a compiled model, which freezes the weights, with this version of Arm's Compute Library."""
    libraries = replace(LIBRARIES, acl=ComputeLibrary("libarm_compute.so", is_loaded=True, version=version))
    own = BF16.replace(**{"mode": "compile", **setting})
    return {"libraries": libraries, "machine": machine_with(architecture=architecture), "setting": own}


def int8(recipe: str, *features: str, architecture: str = "x86_64") -> dict[str, object]:
    """int8 by this recipe on a CPU with these features."""
    setting = ResolvedSetting("int8", recipe=recipe, threads=1)
    machine = machine_with(architecture=architecture, features=features)
    return {"setting": setting, "machine": machine, "canary_verdict": CanaryVerdict.ACTIVE}


def linear(implementation: str = "mkl sgemm", seconds: float = 0.5, **changes: object) -> dict[str, object]:
    """A pass of one second with a Linear layer, where oneDNN was measured to be twice as fast as the BLAS."""
    use = OperatorUse(
        "aten::addmm", OperatorClass.LINEAR, ((8, 8),), implementation, "fp32", ProofSource.BOTH, 1, seconds, seconds
    )
    slow = replace(CEILINGS, gemm=(Gemm("fp32", 8, 1024, "mm", 200.0), Gemm("fp32", 8, 1024, "conv", 400.0)))
    audited = replace(evidence(ProofVerdict.FP32), operators=(use,), seconds=1.0)
    return {"ceilings": slow, "evidence": audited, **changes}


def timing(samples: tuple[float, ...] = (1.0,) * 40) -> Timing:
    """Forty equal samples after a warm-up that settled."""
    series = (Series("latency", samples),)
    return Timing(1.0, (1.0,) * 10, series, "latency", "settled", "interval")


def codes(**changes: Any) -> list[str]:
    """Codes of the warnings of a good run, but for ``changes``."""
    good = {"weights": PRETRAINED, "machine": machine_with(), "usage": IDLE, "canary": Canary(()), "timing": timing()}
    report = make([1.0], **{"setting": FP32, **good, **changes}).report
    assert report is not None
    return [warning.code for warning in run_warnings(report)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"setting": BF16}, []),
        ({"weights": RANDOM}, ["RANDOM_WEIGHTS"]),
        ({"weights": replace(RANDOM, problem="cannot download it")}, ["MISSING_WEIGHTS"]),
        ({"canary_verdict": CanaryVerdict.NOT_FP32}, ["FP32_NOT_FP32"]),
        ({"setting": BF16, "canary_verdict": CanaryVerdict.PARTLY}, ["BF16_PARTLY"]),
        ({"setting": BF16, "canary_verdict": CanaryVerdict.NOT_ACTIVE}, ["BF16_NOT_ACTIVE"]),
        ({"counts": (BOXES,)}, []),
        ({"counts": (BOXES,), "weights": RANDOM}, ["RANDOM_WEIGHTS", "MISMATCHED_COUNTS"]),
        ({"setting": FP32.replace(threads=10_000)}, ["OVERSUBSCRIBED"]),
        ({"usage": replace(IDLE, other_cores=0.5)}, ["OTHER_LOAD"]),
        ({"usage": replace(IDLE, steal_percent=5.0)}, ["STOLEN_TIME"]),
        ({"timing": replace(timing(), warmup_end="cap")}, ["WARMUP_CAP"]),
        ({"timing": timing((1.0,) * 2)}, ["FEW_SAMPLES"]),
        ({"timing": timing((1.0,) * 40 + (9.0,))}, ["OUTLIERS"]),
        ({"environment": EnvironmentChanges({"DNNL_DEFAULT_FPMATH_MODE": "BF16"}, {})}, ["SCRUBBED_VARIABLES"]),
        ({"environment": EnvironmentChanges({"LD_PRELOAD": "libtcmalloc.so.4"}, {})}, []),
        ({"turns": (Turn(0.0, 1.0, 3, 1.9),)}, ["OTHER_THREADS"]),
        ({"turns": (Turn(0.0, 1.0, 3, 1.3),)}, []),
        ({"turns": (Turn(0.0, 1.0, 3, 1.9),), "setting": FP32.replace(threads=2)}, []),
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
        # What doctor finds in the machine: who never calls doctor is warned, too, and the result keeps it.
        ({"machine": machine_with(governor="schedutil")}, ["GOVERNOR"]),
        ({"machine": machine_with(huge_pages="never")}, ["HUGE_PAGES"]),
        ({"machine": machine_with(threads_per_core=2, threads=Threads(8, 8, 16, None))}, ["SMT"]),
        ({"machine": machine_with(threads=Threads(2, 8, 8, 2.5))}, ["CPU_QUOTA"]),
        ({"machine": machine_with(nodes=(NumaNode(0, "0-3", 4), NumaNode(1, "4-7", 4)))}, ["NUMA"]),
        ({"setting": BF16, "machine": machine_with(has_bf16=False)}, ["NO_BF16_HARDWARE"]),
        ({"libraries": replace(LIBRARIES, two_openmp=True)}, ["TWO_OPENMP"]),
        # Threads are set by the setting, which is warned of by itself; variables of fast math were removed.
        ({"setting": FP32.replace(threads=10_000), "machine": WORKERS_OWN}, ["OVERSUBSCRIBED"]),
        # OpenBLAS's core type does nothing where torch uses MKL and oneDNN; what is not known is not said.
        ({"machine": HASWELL, "libraries": LIBRARIES}, ["FORCED_KERNELS"]),
        ({"machine": HASWELL, "libraries": replace(LIBRARIES, backends=("onednn", "mkl"))}, []),
        ({"machine": HASWELL}, []),
        # Runs in bf16 say that its products are slower, if doctor has measured it.
        ({"setting": BF16, "ceilings": SLOW_BF16}, ["SLOW_BF16"]),
        ({"ceilings": SLOW_BF16}, []),
        # OpenBLAS may crash with more threads than it was built for; where the default was lowered to them, not all
        # cores are used.
        (openblas(192), ["OPENBLAS_EXCEEDED"]),
        (openblas(128), ["OPENBLAS_LIMIT"]),
        (openblas(64), []),
        (openblas(192, "numpy"), []),
        # Before 53.1, ACL has no inner product in bf16, which is what inductor makes of Linear with frozen weights.
        (acl("52.6.0"), ["OLD_ACL"]),
        (acl("24.11", bf16_method="cast", mode="aot"), ["OLD_ACL"]),
        (acl("53.1.0"), []),
        (acl(None), []),
        (acl("52.6.0", "x86_64"), []),
        (acl("52.6.0", mode="eager"), []),
        (acl("52.6.0", backend="blas"), []),
        # On x86 CPUs without VNNI, sums of int8 may saturate, unless the recipe leaves a bit free.
        (int8("torchao", "avx2", "avx512f"), ["INT8_SATURATION"]),
        (int8("static", "avx2"), ["INT8_SATURATION"]),
        (int8("torchao", "avx2", "avx_vnni"), []),
        (int8("static", "avx512f", "avx512_vnni"), []),
        (int8("dynamic-x86", "avx2"), []),
        (int8("weight-only", "avx2"), []),
        (int8("static", architecture="aarch64"), []),
        # Where fp32 Linear layers take much of a pass in a BLAS that is slower than oneDNN, and that nobody asked for.
        (linear(), ["SLOW_LINEAR"]),
        (linear(seconds=0.05), []),
        (linear("oneDNN brgemm:avx512_core"), []),
        (linear(setting=FP32.replace(backend="blas")), []),
        (linear(setting=BF16), []),
        (linear(ceilings=None), []),
        # The emulator itself would count as another program; nothing is timed there.
        ({"machine": EMULATED, "timing": None, "usage": replace(IDLE, other_cores=1.8)}, ["EMULATED"]),
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

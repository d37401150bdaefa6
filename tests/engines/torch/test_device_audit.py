"""An audit on an accelerator: the profiler's kernels, and those of the eager model if operators are unknown."""

from __future__ import annotations

from typing import Any

import pytest
from evidence_samples import sentence
from simulated_device import SimulatedDevice

from modelzoo.engines.protocol import Unavailable
from modelzoo.engines.torch import devices
from modelzoo.evidence import profiler
from modelzoo.evidence.device_attribution import DeviceKernel
from modelzoo.evidence.profiler import NoDeviceProfileError
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.setting import ResolvedSetting

GRAPH = ResolvedSetting("bf16", "cast", mode="graph", device="cuda")
KERNEL = "nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT"
CANARY = Canary(tuple(OperatorCheck(name, 2e-3, CanaryLevel.BF16) for name in ("matmul", "linear", "conv")))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device whose profiler records what the call returns."""

    def profiled(call: Any, iterations: int, kind: str, synchronize: Any) -> tuple[DeviceKernel, ...]:
        found = tuple(call() for _ in range(iterations))
        if None in found:
            raise NoDeviceProfileError("no kernels")
        return found

    monkeypatch.setattr(profiler, "run_device_profiled", profiled)
    return SimulatedDevice()


def test_a_graph_is_proven_by_its_eager_kernels(device: Any) -> None:
    """The replayed kernels have no operator; the eager model runs only if that is so."""
    eager = DeviceKernel(KERNEL, 1.0, "aten::mm", (), ("c10::BFloat16", "c10::BFloat16"))
    called: list[int] = []

    def run_eager() -> DeviceKernel:
        called.append(1)
        return eager

    for replayed, expected in ((DeviceKernel(KERNEL, 1.0), 1), (eager, 1)):
        call = devices.Call(lambda replayed=replayed: replayed, run_eager, GRAPH)
        found = devices.audit(call, device, 2, CANARY)
        assert isinstance(found, Evidence)
        assert sentence(found).startswith("bf16: ACTIVE") and found.iterations == 2
        assert len(called) == expected


def test_without_a_profile_there_is_a_reason(device: Any) -> None:
    """Both observations are unavailable, and say why."""
    call = devices.Call(lambda: None, None, GRAPH)
    assert devices.audit(call, device, 1, CANARY) == Unavailable("no kernels")
    assert devices.digest(lambda: None, device) == Unavailable("no kernels")


def test_a_digest_needs_a_product(device: Any) -> None:
    """Kernels that only copy prove nothing about a process."""
    assert isinstance(devices.digest(lambda: DeviceKernel(KERNEL, 1.0), device), KernelDigest)
    found = devices.digest(lambda: DeviceKernel("Memcpy DtoD (Device -> Device)", 1.0), device)
    assert isinstance(found, Unavailable)

"""Audit a model on an accelerator: which kernels one call ran there, and in which precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.engines.protocol import Observed, Unavailable
from modelzoo.engines.torch.devices import TorchDevice
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.setting import ResolvedSetting


@dataclass(frozen=True)
class Call:
    """What is audited.

    Attributes:
        run: one call of the model.
        eager: one call of the eager model, if ``run`` is another one; shows which operators launch which kernels.
        setting: what both run under.
    """

    run: Callable[[], Any]
    eager: Callable[[], Any] | None
    setting: ResolvedSetting


def audit(call: Call, device: TorchDevice, passes: int, canary: Canary | None) -> Observed[Evidence]:
    """Judge the kernels of ``passes`` calls."""
    from modelzoo.evidence.device_attribution import device_evidence
    from modelzoo.evidence.profiler import NoDeviceProfileError, run_device_profiled

    try:
        kernels = run_device_profiled(call.run, passes, device.kind, device.synchronize)
        has_operators = all(kernel.operator for kernel in kernels)
        elsewhere = (
            run_device_profiled(call.eager, 1, device.kind, device.synchronize)
            if call.eager is not None and not has_operators
            else ()
        )
    except NoDeviceProfileError as problem:
        return Unavailable(str(problem))
    setting = call.setting
    return device_evidence(
        kernels,
        elsewhere,
        iterations=passes,
        canary=canary,
        requested=setting.precision,
        method=setting.bf16_method,
    )


def digest(run: Callable[[], Any], device: TorchDevice) -> Observed[KernelDigest]:
    """Say which kernels one call of ``run`` launches."""
    from modelzoo.evidence.device_attribution import device_digest
    from modelzoo.evidence.profiler import NoDeviceProfileError, run_device_profiled

    try:
        found = device_digest(run_device_profiled(run, 1, device.kind, device.synchronize))
    except NoDeviceProfileError as problem:
        return Unavailable(str(problem))
    return found if found is not None else Unavailable("no kernel that multiplies matrices ran on the device")

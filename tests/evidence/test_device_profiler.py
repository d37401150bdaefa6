"""The profiler's events become launches of kernels, with the operators that launched them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelzoo.evidence.device_attribution import DeviceKernel
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import NoDeviceProfileError, device_kernels, run_device_profiled


def event(name: str, device: str, identity: int = 0, linked: int = 0, microseconds: int = 0, **more: Any) -> Any:
    """One of Kineto's events, which are read by methods."""
    values = {
        "name": name,
        "device_type": f"DeviceType.{device}",
        "correlation_id": identity,
        "linked_correlation_id": linked,
        "duration_ns": microseconds * 1000,
        "shapes": [],
        "dtypes": [],
        **more,
    }
    return SimpleNamespace(**{key: (lambda value=value: value) for key, value in values.items()})


def test_kernels_have_the_operator_that_launched_them() -> None:
    """Ranges of the host that are shown on the device are no kernels; a graph's kernels have no operator."""
    mm = event("aten::mm", "CPU", 7, shapes=[[2, 3], [3, 4], []], dtypes=["float", "float"])
    events = [
        event(PASS_EVENT, "CPU", 1),
        mm,
        event("cudaLaunchKernel", "CPU", 8),
        event("ampere_sgemm_32x32_sliced1x4_tn", "CUDA", 8, linked=7, microseconds=5),
        event(PASS_EVENT, "CUDA", 1, microseconds=90),
        event("my range", "CUDA", 2, microseconds=90, is_user_annotation=True),
        event("Memcpy HtoD (Pageable -> Device)", "CUDA", 9, linked=1, microseconds=2),
        event("nvjet_tst_128x24_64x11_2x1_v_bz_TNT", "CUDA", 11, microseconds=3),
    ]
    assert device_kernels(events) == (
        DeviceKernel("ampere_sgemm_32x32_sliced1x4_tn", 5e-6, "aten::mm", ((2, 3), (3, 4), ()), ("float", "float")),
        DeviceKernel("Memcpy HtoD (Pageable -> Device)", 2e-6),
        DeviceKernel("nvjet_tst_128x24_64x11_2x1_v_bz_TNT", 3e-6),
    )


def test_a_device_without_profiler_is_said() -> None:
    """torch_npu has a profiler of its own; without kernels nothing is proven, and the reason is recorded."""
    with pytest.raises(NoDeviceProfileError, match="torch's profiler does not record the kernels of npu devices"):
        run_device_profiled(lambda: None, 1, "npu", lambda: None)


def test_a_profile_without_kernels_is_said() -> None:
    """On a machine without the device the profiler records only the host."""
    with pytest.raises(NoDeviceProfileError, match="recorded no kernel on the cuda device"):
        run_device_profiled(lambda: None, 1, "cuda", lambda: None)

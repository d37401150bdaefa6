"""What is read of torch's profiler, and the capture of what libraries print."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from modelzoo.evidence.audit import (
    CALL,
    _profiler,
    captured_output,
    device_kernels,
    run_device_profiled,
)
from modelzoo.evidence.device_attribution import DeviceKernel


def test_capture_reads_c_stdio() -> None:
    """Output in the buffer of C's stdio is captured as well as Python's."""
    import ctypes

    problems: list[str] = []
    with captured_output(problems) as written:
        ctypes.CDLL(None).printf(b"onednn_verbose,from C\n")
        print("onednn_verbose,from Python", flush=True)
        text = written()
    assert "from C" in text
    assert problems == []


def test_noise_of_the_libraries_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines of oneDNN, MKL and Kineto are not printed; other lines go to standard error."""
    with captured_output([]):
        os.write(1, b"onednn_verbose,exec\nMKL_VERBOSE SGEMM(1)\nSTAGE:2024-01-31 Kineto\nfrom the model\n")
    assert tuple(capfd.readouterr()) == ("", "from the model\n")


def test_output_is_restored_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception in the block leaves no redirected file descriptor."""
    with pytest.raises(ValueError, match="broken"), captured_output([]):
        raise ValueError("broken")
    os.write(1, b"still here\n")
    assert capfd.readouterr().out == "still here\n"


def event(
    name: str, device: str, identity: int = 0, linked: int = 0, microseconds: int = 0, start: int = 0, **more: Any
) -> Any:
    """One of Kineto's events, which are read by methods."""
    values = {
        "name": name,
        "device_type": f"DeviceType.{device}",
        "correlation_id": identity,
        "linked_correlation_id": linked,
        "duration_ns": microseconds * 1000,
        "start_ns": start * 1000,
        **more,
    }
    return SimpleNamespace(**{key: (lambda value=value: value) for key, value in values.items()})


def test_kernels_have_the_call_that_launched_them() -> None:
    """Operators within the range of a recorded call are its own; ranges that are shown on the device are no kernels; a
    graph's kernels have no call."""
    events = [
        event(f"{CALL}0", "CPU", 1, start=0, microseconds=4),
        event(f"{CALL}1", "CPU", 2, start=5, microseconds=9),
        event("aten::mm", "CPU", 7, start=6),
        event("cudaLaunchKernel", "CPU", 8),
        event("aten::add", "CPU", 9, start=20),
        event("ampere_sgemm_32x32_sliced1x4_tn", "CUDA", 8, linked=7, microseconds=5),
        event(f"{CALL}1", "CUDA", 1, microseconds=90),
        event("my range", "CUDA", 2, microseconds=90, is_user_annotation=True),
        event("Memcpy HtoD (Pageable -> Device)", "CUDA", 9, linked=1, microseconds=2),
        event("elementwise", "CUDA", 10, linked=9, microseconds=1),
        event("nvjet_tst_128x24_64x11_2x1_v_bz_TNT", "CUDA", 11, microseconds=3),
    ]
    assert device_kernels(events) == (
        DeviceKernel("ampere_sgemm_32x32_sliced1x4_tn", 5e-6, 1),
        DeviceKernel("Memcpy HtoD (Pageable -> Device)", 2e-6, 0),
        DeviceKernel("elementwise", 1e-6),
        DeviceKernel("nvjet_tst_128x24_64x11_2x1_v_bz_TNT", 3e-6),
    )


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("npu", "torch's profiler does not record the kernels of npu devices"),
        ("cuda", "torch's profiler recorded no kernel on the cuda device (is CUPTI installed?)"),
    ],
)
def test_a_device_without_a_profile_is_said(kind: str, problem: str) -> None:
    """torch_npu has a profiler of its own; on a machine without the device, the profiler records only the host."""
    problems: list[str] = []
    with captured_output([]) as written:
        assert run_device_profiled(lambda: None, kind, lambda: None, written, problems) == ()
    assert problems == [problem]


def test_the_device_profile_lists_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless Kineto is asked for, torch times operators by events instead, and no kernel has a name."""
    import torch
    from torch.autograd import profiler
    from torch.profiler import ProfilerActivity

    activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profiler, "_supported_activities", lambda: activities)
    assert _profiler("cuda").kineto_activities == activities

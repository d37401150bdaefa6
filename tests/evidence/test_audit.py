"""An audit records the operators and the kernels of a few passes, and leaves nothing switched on."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import profiler
from torch.backends import mkldnn
from torch.profiler import ProfilerActivity

from modelzoo.engines.protocol import Unavailable
from modelzoo.engines.torch.devices import digest
from modelzoo.evidence.audit import (
    CALL,
    _profiler,
    blas_name,
    captured_output,
    device_kernels,
    onednn_version,
    run_device_profiled,
    watched_kernels,
)
from modelzoo.evidence.canary import run_canary
from modelzoo.evidence.logs import Primitive
from modelzoo.evidence.precision import DeviceKernel
from modelzoo.evidence.probes import differ, kept
from modelzoo.evidence.recording import Plan, Recording, record_once
from modelzoo.records.evidence import KernelDigest, LogSource


@pytest.fixture(scope="module")
def forward() -> Callable[[], Any]:
    """One pass of a small network: a convolution through oneDNN, a Linear, a ReLU."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4)
    ).eval()
    x = torch.randn(2, 8, 40, 40)

    def call() -> Any:
        with torch.inference_mode():
            return model(x)

    call()
    return call


def recorded(call: Callable[[], object]) -> Recording:
    """One recorded pass, without replays."""
    return record_once(call, Plan())


def primitives(found: Recording) -> list[Primitive]:
    """What oneDNN ran, in operators and outside."""
    printed = [each.printed for each in found.calls] + list(found.outside)
    return [primitive for each in printed for primitive in each.log.primitives]


def test_what_was_printed_during_an_operator_is_its_own(forward: Callable[[], Any]) -> None:
    """With its shapes, types and operations, its time and its layer."""
    found = recorded(forward)
    (conv,) = (each for each in found.calls if each.call.name == "aten::convolution")
    assert conv.call.shapes[:2] == ((2, 8, 40, 40), (32, 8, 3, 3))
    assert (conv.call.dtypes[0], conv.call.flop) == ("float32", 2 * 2 * 32 * 38 * 38 * 8 * 9)
    assert [each.kind for each in conv.printed.log.primitives if each.is_compute] == ["convolution"]
    assert conv.seconds > 0
    assert found.products[conv.product or 0].operator == "aten::convolution"
    assert sum(each.kind == "convolution" for each in primitives(found)) == 1
    assert (found.outside, found.problems, found.log_source) == ((), (), LogSource.RUNTIME_SWITCH)
    assert found.onednn_version == onednn_version() != ""


def test_a_pass_whose_operators_cannot_be_intercepted_is_observed_by_the_logs_alone(forward: Callable[[], Any]) -> None:
    """As one that an operator of torch refuses, or compiled code with a torch that does not reach into it."""
    found = record_once(forward, Plan(intercepts=False))
    assert (found.calls, found.eager) == ((), None)
    assert any(each.kind == "convolution" for each in primitives(found))
    assert ["logs alone" in each for each in found.problems] == [True]


def test_failure_restores_the_output(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """After a pass that raises, no file descriptor is redirected and no library is verbose."""

    def failing() -> None:
        forward()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        recorded(failing)
    os.write(1, b"still here\n")
    forward()
    assert capfd.readouterr().out == "still here\n"
    recorded(forward)


def test_the_kernels_of_a_pass_are_logged_alike_each_time(
    forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """One pass names the kernels that an audit finds, and prints nothing."""
    found = digest(forward, None)
    assert isinstance(found, KernelDigest)
    assert digest(forward, None) == found
    kernels = {f"oneDNN {each.kind} {each.implementation}" for each in primitives(recorded(forward)) if each.is_compute}
    assert {each.kernel for each in found.kernels if each.kernel.startswith("oneDNN")} == kernels
    out, err = capfd.readouterr()
    assert out == err == ""


def test_a_build_without_the_switch_shows_no_kernel(
    forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says so and how to fix it. With a log, the canary knows its kernels; one without any is an error."""
    kernels = {check.operator: check.kernels for check in run_canary(watch=watched_kernels).operators}
    assert [kernel.split()[0] for kernel in kernels["conv"] or ()] == ["convolution"]
    assert None not in kernels.values()
    assert digest(lambda: None, None) == Unavailable("the logs of oneDNN and MKL name no kernel that ran")

    def refuse(level: int) -> Any:
        raise AssertionError("Failed to set MKLDNN into verbose mode.")

    monkeypatch.setattr(mkldnn, "verbose", refuse)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    found = recorded(forward)
    assert (found.log_source, found.shows_onednn, primitives(found)) == (LogSource.NONE, False, [])
    assert any("ONEDNN_VERBOSE=1" in problem for problem in found.problems)
    assert {check.kernels for check in run_canary(watch=watched_kernels).operators} == {None}
    shown = digest(forward, None)
    assert isinstance(shown, Unavailable)
    assert "cannot switch oneDNN's verbose mode on" in shown.reason


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("1", LogSource.ENVIRONMENT),
        ("profile_exec,dispatch", LogSource.ENVIRONMENT),
        ("error", LogSource.RUNTIME_SWITCH),
        ("profile_create", LogSource.RUNTIME_SWITCH),
        ("profile_exec,filter=conv", LogSource.NONE),
    ],
)
def test_only_some_values_of_the_variable_log_executions(
    forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, value: str, source: LogSource
) -> None:
    """For the others the mode is switched on; a filter may hide kernels, so such a log is none."""
    monkeypatch.setenv("ONEDNN_VERBOSE", value)
    audit = recorded(forward)
    assert audit.log_source is source
    assert any("filters oneDNN's log" in problem for problem in audit.problems) is (source is LogSource.NONE)


OPENBLAS_CONFIG = "  - Intel(R) MKL-DNN v3.7.1 (Git Hash 1)\n  - Build settings: BLAS_INFO=open, USE_MKL=OFF\n"


def test_openblas_reports_its_version_and_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that NumPy installs is ignored; torch's own names its core."""
    import threadpoolctl

    def loaded() -> list[dict[str, Any]]:
        packages, facts = "/x/site-packages", {"user_api": "blas", "internal_api": "openblas", "num_threads": 1}
        numpy = {**facts, "filepath": f"{packages}/numpy.libs/libopenblas.so", "version": "1"}
        own = {"filepath": f"{packages}/torch/lib/libopenblas.so", "version": "0.3.29", "architecture": "NEOVERSEN2"}
        openmp = {**facts, "user_api": "openmp", "internal_api": "openmp", "filepath": "/x/libgomp.so"}
        return [openmp, numpy, {**facts, **own}]

    monkeypatch.setattr(torch.__config__, "show", lambda: OPENBLAS_CONFIG)
    monkeypatch.setattr(threadpoolctl, "threadpool_info", loaded)
    assert blas_name() == "openblas 0.3.29 neoversen2"
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [])
    assert blas_name() == "openblas"
    assert onednn_version() == "3.7.1"


def test_output_is_captured_and_noise_of_the_libraries_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    """Also what is in the buffer of C's stdio; lines that are not of oneDNN, MKL or Kineto go to standard error."""
    problems: list[str] = []
    with captured_output(problems) as written:
        ctypes.CDLL(None).printf(b"onednn_verbose,from C\n")
        os.write(1, b"onednn_verbose,exec\nMKL_VERBOSE SGEMM(1)\nSTAGE:2024-01-31 Kineto\nfrom the model\n")
        assert "from C" in written()
    assert problems == []
    assert tuple(capfd.readouterr()) == ("", "from the model\n")


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
    activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profiler, "_supported_activities", lambda: activities)
    assert _profiler("cuda").kineto_activities == activities


ONES, ROUNDED, OTHERS = torch.ones(4), torch.ones(4) + 2**-22, torch.ones(4) * 1.01


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ([ONES, ONES], False),
        ([ONES, ROUNDED], False),
        ([ONES, OTHERS], True),
        ([ONES], True),
        ([ONES, ONES.bfloat16()], True),
    ],
)
def test_any_output_that_differs_is_seen(observed: Sequence[torch.Tensor], expected: bool) -> None:
    """One of several is enough, or one that is missing; the rounding of fp32 is not."""
    assert differ(kept([ONES, ONES]), observed) is expected

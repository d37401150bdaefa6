"""An audit records the operators and the kernels of a few passes, and leaves nothing switched on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest

from modelzoo.evidence.audit import (
    NoKernelLogError,
    blas_name,
    calls_sbgemm,
    log_kernels,
    onednn_version,
    run_audit,
    watched_kernels,
)
from modelzoo.evidence.audited import attribute_audit
from modelzoo.evidence.flops import record_calls, sum_flops
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.records.evidence import LogSource


@pytest.fixture(scope="module")
def forward() -> Callable[[], Any]:
    """One pass of a small network: a convolution through oneDNN, a Linear, a ReLU."""
    import torch
    from torch import nn

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


def test_operators_and_primitives(forward: Callable[[], Any]) -> None:
    """Profiler and log describe the same passes, and self times add up to the passes' time."""
    audit = run_audit(forward, 3)
    names = [event.name for event in audit.events]
    assert names.count(PASS_EVENT) == audit.iterations == 3
    convolutions = [event for event in audit.events if event.name == "aten::mkldnn_convolution"]
    assert len(convolutions) == 3
    assert convolutions[0].shapes[:2] == ((2, 8, 40, 40), (32, 8, 3, 3))
    assert convolutions[0].dtypes[:2] == ("float", "float")
    assert sum(each.kind == "convolution" for each in audit.log.primitives) == 3
    assert audit.log.version == onednn_version() != ""
    assert audit.log_source is LogSource.RUNTIME_SWITCH
    assert audit.seconds == pytest.approx(sum(event.seconds for event in audit.events))
    assert audit.problems == ()


def test_nothing_is_left_switched_on(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the audit nor a pass after it prints anything."""
    run_audit(forward, 1)
    forward()
    out, err = capfd.readouterr()
    assert "verbose" not in (out + err).lower()
    assert out == err == ""


def test_what_the_model_prints_is_kept(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """The model's own output goes to standard error: a worker's standard output may be a protocol."""

    def talking() -> None:
        forward()
        os.write(1, b"from the model\n")

    audit = run_audit(talking, 1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from the model" in err
    assert any(each.kind == "convolution" for each in audit.log.primitives)


def test_failure_restores_the_output(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """After a pass that raises, no file descriptor is redirected and no library is verbose."""

    def failing() -> None:
        forward()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_audit(failing, 1)
    os.write(1, b"still here\n")
    forward()
    assert capfd.readouterr().out == "still here\n"
    run_audit(forward, 1)


def test_build_without_the_switch(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """If oneDNN's verbose mode cannot be switched on, the record says so and how to fix it."""
    from torch.backends import mkldnn

    def refuse(level: int) -> Any:
        raise AssertionError("Failed to set MKLDNN into verbose mode.")

    monkeypatch.setattr(mkldnn, "verbose", refuse)
    audit = run_audit(forward, 1)
    assert audit.log_source is LogSource.NONE
    assert audit.log.primitives == ()
    assert any("ONEDNN_VERBOSE=1" in problem for problem in audit.problems)


def test_variable_set_by_the_caller(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that the environment switched on is recorded as such."""
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    assert run_audit(forward, 1).log_source is LogSource.ENVIRONMENT


def test_build_without_a_profiler(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes run and the kernel log is recorded."""
    import torch.autograd.profiler

    def refuse(**options: Any) -> Any:
        raise RuntimeError("no Kineto\nin this build")

    monkeypatch.setattr(torch.autograd.profiler, "profile", refuse)
    audit = run_audit(forward, 2)
    assert audit.events == ()
    assert sum(each.kind == "convolution" for each in audit.log.primitives) == 2
    assert audit.seconds > 0
    assert audit.problems == ("this PyTorch build has no working profiler (no Kineto)",)


def test_the_kernels_of_a_pass_are_logged_alike_each_time(
    forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """One pass without the profiler names the kernels that an audit finds, and prints nothing."""
    digest = log_kernels(forward)
    assert log_kernels(forward) == digest
    kernels = {
        f"oneDNN {each.kind} {each.implementation}" for each in run_audit(forward, 1).log.primitives if each.is_compute
    }
    assert {each.kernel for each in digest.kernels if each.kernel.startswith("oneDNN")} == kernels
    out, err = capfd.readouterr()
    assert out == err == ""


def test_kernels_that_no_log_names_are_an_error(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the log that is missing, or that it names nothing."""
    import torch
    from torch.backends import mkldnn

    with pytest.raises(NoKernelLogError, match="name no kernel that ran"):
        log_kernels(lambda: None)

    def refuse(level: int) -> Any:
        raise AssertionError("Failed to set MKLDNN into verbose mode.")

    monkeypatch.setattr(mkldnn, "verbose", refuse)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    with pytest.raises(NoKernelLogError, match="cannot switch oneDNN's verbose mode on"):
        log_kernels(forward)


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("1", LogSource.ENVIRONMENT),
        ("2", LogSource.ENVIRONMENT),
        ("all", LogSource.ENVIRONMENT),
        ("profile_exec,dispatch", LogSource.ENVIRONMENT),
        ("error", LogSource.RUNTIME_SWITCH),
        ("check", LogSource.RUNTIME_SWITCH),
        ("profile_create", LogSource.RUNTIME_SWITCH),
        ("none", LogSource.RUNTIME_SWITCH),
        ("profile_exec,filter=conv", LogSource.NONE),
    ],
)
def test_only_some_values_of_the_variable_log_executions(
    forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, value: str, source: LogSource
) -> None:
    """For the others the mode is switched on; a filter may hide kernels, so such a log is none."""
    monkeypatch.setenv("ONEDNN_VERBOSE", value)
    audit = run_audit(forward, 1)
    assert audit.log_source is source
    assert any("filters oneDNN's log" in problem for problem in audit.problems) is (source is LogSource.NONE)


def test_the_canary_knows_its_kernels(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its convolution runs in oneDNN; without a log it is not known what ran."""
    from torch.backends import mkldnn

    from modelzoo.evidence.canary import run_canary

    kernels = {check.operator: check.kernels for check in run_canary(watch=watched_kernels).operators}
    assert [kernel.split()[0] for kernel in kernels["conv"] or ()] == ["convolution"]
    assert None not in kernels.values()
    monkeypatch.setattr(mkldnn, "verbose", lambda level: _refused())
    assert {check.kernels for check in run_canary(watch=watched_kernels).operators} == {None}
    assert {check.kernels for check in run_canary().operators} == {None}


def _refused() -> Any:
    raise AssertionError("Failed to set MKLDNN into verbose mode.")


def test_blas_name() -> None:
    """The name begins with the kind of library."""
    assert blas_name().split()[0] in ("mkl", "openblas", "blis", "generic", "accelerate", "nvpl")


@pytest.mark.parametrize(
    ("content", "said"), [(b"x\0sbgemm_\0sgemm_\0", True), (b"x\0sgemm_\0cblas_sbgemm_\0", False), (None, None)]
)
def test_whether_torch_calls_the_blas_for_bf16(tmp_path: Path, content: bytes | None, said: bool | None) -> None:
    """Only the whole symbol name counts; without the file the answer is unknown."""
    library = tmp_path / "libtorch_cpu.so"
    if content is not None:
        library.write_bytes(content)
    assert calls_sbgemm(library) is said


OPENBLAS_CONFIG = "  - Intel(R) MKL-DNN v3.7.1 (Git Hash 1)\n  - Build settings: BLAS_INFO=open, USE_MKL=OFF\n"


def test_openblas_reports_its_version_and_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that NumPy installs is ignored; torch's own names its core."""
    import threadpoolctl
    import torch

    def loaded() -> list[dict[str, Any]]:
        numpy = {"user_api": "blas", "filepath": "/x/numpy.libs/libopenblas.so", "internal_api": "openblas"}
        own = {"filepath": "/x/torch.libs/libopenblas.so", "version": "0.3.29", "architecture": "NEOVERSEN2"}
        return [{"user_api": "openmp"}, {**numpy, "version": "1"}, {**numpy, **own}]

    monkeypatch.setattr(torch.__config__, "show", lambda: OPENBLAS_CONFIG)
    monkeypatch.setattr(threadpoolctl, "threadpool_info", loaded)
    assert blas_name() == "openblas 0.3.29 neoversen2"
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [])
    assert blas_name() == "openblas"
    assert onednn_version() == "3.7.1"


LAYERS = {
    "grouped": {"padding": 1, "groups": 8},
    "depthwise": {"stride": 2, "padding": 1, "groups": 32},
    "dilated": {"dilation": 2, "groups": 2},
    "transposed": {"stride": 2, "transposed": True},
    "transposed in groups": {"stride": 2, "groups": 4, "transposed": True},
}


@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")
@pytest.mark.parametrize("name", LAYERS)
def test_without_onednn_the_groups_of_a_convolution_are_all_of_it(name: str) -> None:
    """Each group is a call of its own, whose shapes show neither its strides nor that it is a part of a layer."""
    import torch
    from torch import nn

    options = dict(LAYERS[name])
    kind = nn.ConvTranspose2d if options.pop("transposed", False) else nn.Conv2d
    layer, pictures = kind(32, 32, 3, **options).eval(), torch.randn(1, 32, 16, 16)
    with torch.inference_mode(), torch.backends.mkldnn.flags(enabled=False):
        calls = record_calls(lambda: layer(pictures))
        audit = run_audit(lambda: layer(pictures), 1)
    attributed = attribute_audit(audit, None, None, calls=calls)
    assert sum(part.flop or 0 for part in attributed.parts) == sum_flops(calls).total
    found = judge_attributed(attributed, None, "fp32").coverage
    assert found is not None and found.seen_arithmetic == 1.0

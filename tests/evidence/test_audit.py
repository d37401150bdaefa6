"""An audit records the operators and the kernels of a few passes, and leaves nothing switched on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from planted_kernels import print_line

from modelzoo.evidence.audit import (
    NoKernelLogError,
    blas_name,
    log_kernels,
    onednn_version,
    watched_kernels,
)
from modelzoo.evidence.logs import Primitive
from modelzoo.evidence.recording import Plan, Recording, record_once
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


def test_what_is_printed_between_operators_is_no_operators() -> None:
    """As by generated code, or by an extension, that calls oneDNN itself."""
    import torch

    x = torch.ones(4)

    def printing() -> object:
        print_line("outside")
        return x + x

    found = recorded(printing)
    assert [line for each in found.outside for line in each.log.unread] != []
    assert [each.printed.log.unread for each in found.calls] == [()]


def test_a_pass_whose_operators_cannot_be_intercepted_is_observed_by_the_logs_alone(forward: Callable[[], Any]) -> None:
    """As one that an operator of torch refuses, or compiled code with a torch that does not reach into it."""
    found = record_once(forward, Plan(intercepts=False))
    assert (found.calls, found.eager) == ((), None)
    assert any(each.kind == "convolution" for each in primitives(found))
    assert ["logs alone" in each for each in found.problems] == [True]


def test_nothing_is_left_switched_on(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the audit nor a pass after it prints anything."""
    recorded(forward)
    forward()
    out, err = capfd.readouterr()
    assert "verbose" not in (out + err).lower()
    assert out == err == ""


def test_what_the_model_prints_is_kept(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """The model's own output goes to standard error: a worker's standard output may be a protocol."""

    def talking() -> None:
        forward()
        os.write(1, b"from the model\n")

    found = recorded(talking)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from the model" in err
    assert any(each.kind == "convolution" for each in primitives(found))


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


def test_build_without_the_switch(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """If oneDNN's verbose mode cannot be switched on, the record says so and how to fix it."""
    from torch.backends import mkldnn

    def refuse(level: int) -> Any:
        raise AssertionError("Failed to set MKLDNN into verbose mode.")

    monkeypatch.setattr(mkldnn, "verbose", refuse)
    found = recorded(forward)
    assert (found.log_source, found.shows_onednn, primitives(found)) == (LogSource.NONE, False, [])
    assert any("ONEDNN_VERBOSE=1" in problem for problem in found.problems)


def test_variable_set_by_the_caller(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that the environment switched on is recorded as such."""
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    assert recorded(forward).log_source is LogSource.ENVIRONMENT


def test_the_kernels_of_a_pass_are_logged_alike_each_time(
    forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """One pass names the kernels that an audit finds, and prints nothing."""
    digest = log_kernels(forward)
    assert log_kernels(forward) == digest
    kernels = {f"oneDNN {each.kind} {each.implementation}" for each in primitives(recorded(forward)) if each.is_compute}
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
    audit = recorded(forward)
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

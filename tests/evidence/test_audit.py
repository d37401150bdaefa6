from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest

from modelzoo.evidence.audit import ROOT, Span, audit, blas_name, calls_sbgemm, captured, nest, onednn_version


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
    """Both sources speak of the same passes, and self times add up to the passes' time."""
    seen = audit(forward, 3)
    names = [event.name for event in seen.events]
    assert names.count(ROOT) == seen.iterations == 3
    convolutions = [event for event in seen.events if event.name == "aten::mkldnn_convolution"]
    assert len(convolutions) == 3
    assert convolutions[0].shapes[:2] == ((2, 8, 40, 40), (32, 8, 3, 3))
    assert convolutions[0].dtypes[:2] == ("float", "float")
    assert sum(each.kind == "convolution" for each in seen.log.primitives) == 3
    assert seen.log.version == onednn_version() != ""
    assert seen.log_source == "runtime switch"
    assert seen.seconds == pytest.approx(sum(event.seconds for event in seen.events))
    assert seen.problems == ()


def test_nothing_is_left_switched_on(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the audit nor a pass after it prints anything."""
    audit(forward, 1)
    forward()
    out, err = capfd.readouterr()
    assert "verbose" not in (out + err).lower()
    assert out == err == ""


def test_what_the_model_prints_is_kept(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Output of others is passed on, to standard error: a worker's standard output may be a protocol."""

    def talking() -> None:
        forward()
        os.write(1, b"from the model\n")

    seen = audit(talking, 1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "from the model" in err
    assert any(each.kind == "convolution" for each in seen.log.primitives)


def test_failure_restores_the_output(forward: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """A pass that raises leaves no redirected file descriptor and no verbose library behind."""

    def failing() -> None:
        forward()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        audit(failing, 1)
    os.write(1, b"still here\n")
    forward()
    assert capfd.readouterr().out == "still here\n"
    audit(forward, 1)


def test_build_without_the_switch(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN cannot be made to talk the record says so, and what to do."""
    from torch.backends import mkldnn

    def refuse(level: int) -> Any:
        raise AssertionError("Failed to set MKLDNN into verbose mode.")

    monkeypatch.setattr(mkldnn, "verbose", refuse)
    seen = audit(forward, 1)
    assert seen.log_source == "none"
    assert seen.log.primitives == ()
    assert any("ONEDNN_VERBOSE=1" in problem for problem in seen.problems)


def test_variable_set_by_the_caller(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that the environment asked for is named so and not switched off afterwards."""
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    assert audit(forward, 1).log_source == "environment"


def test_build_without_a_profiler(forward: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes run all the same, and the kernel log is still had."""
    import torch.autograd.profiler

    def refuse(**options: Any) -> Any:
        raise RuntimeError("no Kineto\nin this build")

    monkeypatch.setattr(torch.autograd.profiler, "profile", refuse)
    seen = audit(forward, 2)
    assert seen.events == ()
    assert sum(each.kind == "convolution" for each in seen.log.primitives) == 2
    assert seen.seconds > 0
    assert seen.problems == ("this PyTorch build has no working profiler (no Kineto)",)


def test_nest() -> None:
    """Self time is a span's own; other threads and what lies outside a pass are left out."""
    events = nest(
        [
            Span("warm-up", 0, 50, 1),
            Span("aten::mm", 130, 190, 1),
            Span(ROOT, 100, 300, 1),
            Span("aten::linear", 120, 200, 1),
            Span("aten::mm", 130, 190, 2),
            Span("aten::late", 290, 305, 1),
        ]
    )
    assert [(event.name, event.parent) for event in events] == [
        (ROOT, -1),
        ("aten::linear", 0),
        ("aten::mm", 1),
        ("aten::late", 0),
    ]
    # A child that ends after its parent is cut there.
    assert [round(event.seconds * 1e9) for event in events] == [200 - 80 - 10, 20, 60, 10]


def test_capture_reads_c_stdio() -> None:
    """What C code wrote to its own buffer is read as well as what Python wrote."""
    import ctypes

    problems: list[str] = []
    with captured(problems) as written:
        ctypes.CDLL(None).printf(b"onednn_verbose,from C\n")
        print("onednn_verbose,from Python", flush=True)
        text = written()
    assert "from C" in text
    assert problems == []


def test_blas_name() -> None:
    """The BLAS is torch's own, by kind first."""
    assert blas_name().split()[0] in ("mkl", "openblas", "blis", "generic", "accelerate", "nvpl")


@pytest.mark.parametrize(
    ("content", "said"), [(b"x\0sbgemm_\0sgemm_\0", True), (b"x\0sgemm_\0cblas_sbgemm_\0", False), (None, None)]
)
def test_whether_torch_calls_the_blas_for_bf16(tmp_path: Path, content: bytes | None, said: bool | None) -> None:
    """The symbol's whole name among the library's; no file, no answer."""
    library = tmp_path / "libtorch_cpu.so"
    if content is not None:
        library.write_bytes(content)
    assert calls_sbgemm(library) is said

"""The profiler's events become a tree with self times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest

from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import Span, nest_spans, run_profiled


@pytest.fixture
def product() -> Callable[[], Any]:
    """A matrix product."""
    import torch

    x = torch.ones(8, 8)
    return lambda: x @ x


def test_every_pass_is_recorded(product: Callable[[], Any], tmp_path: Path) -> None:
    """Each pass has its event, operators have shapes and data types, and the trace can be read."""
    problems: list[str] = []
    trace = tmp_path / "trace.json"
    events = run_profiled(product, 3, problems, trace)
    assert [event.name for event in events].count(PASS_EVENT) == 3
    (first, *_) = (event for event in events if event.name == "aten::mm")
    assert first.shapes[:2] == ((8, 8), (8, 8))
    assert first.dtypes[:2] in (("float", "float"), ())
    assert events[first.parent].name == "aten::matmul"
    assert json.loads(trace.read_text())["traceEvents"]


def test_without_a_profiler_the_passes_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without Kineto gives no events and one line that says why."""
    import torch.autograd.profiler

    def refuse(**options: Any) -> Any:
        raise RuntimeError("no Kineto\nin this build")

    monkeypatch.setattr(torch.autograd.profiler, "profile", refuse)
    passes: list[int] = []
    problems: list[str] = []
    assert run_profiled(lambda: passes.append(1), 2, problems) == ()
    assert len(passes) == 2
    assert problems == ["this PyTorch build has no working profiler (no Kineto)"]


def test_self_times() -> None:
    """Self time excludes children; other threads and spans outside a pass are dropped."""
    events = nest_spans(
        [
            Span("warm-up", 0, 50, 1),
            Span("aten::mm", 130, 190, 1),
            Span(PASS_EVENT, 100, 300, 1),
            Span("aten::linear", 120, 200, 1),
            Span("aten::mm", 130, 190, 2),
            Span("aten::late", 290, 305, 1),
        ]
    )
    assert [(event.name, event.parent) for event in events] == [
        (PASS_EVENT, -1),
        ("aten::linear", 0),
        ("aten::mm", 1),
        ("aten::late", 0),
    ]
    # A child that ends after its parent is cut off there.
    assert [round(event.seconds * 1e9) for event in events] == [200 - 80 - 10, 20, 60, 10]

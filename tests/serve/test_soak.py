"""Stretches of a soak test, and the trend over them."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_workloads import SHORT, numpy_classifier, numpy_setting

from modelzoo.machine.cpu import read_topology
from modelzoo.measure.jobs import Request, prepare
from modelzoo.records.serving import Window
from modelzoo.records.throughput import Configuration, Smt, Soak
from modelzoo.serve import configurations as soaking
from modelzoo.serve.places import plan
from modelzoo.serve.round import Task


def window(seconds: float, batches: int, memory: int | None = 1000) -> Window:
    """An instance's answer."""
    edges = [seconds * number for number in range(batches + 1)]
    return Window(tuple(edges[:-1]), tuple(edges[1:]), memory)


def test_a_stretch_counts_as_a_round_does() -> None:
    """Inside the window in which all ran; the memory of all together."""
    point = soaking.soak_point([window(0.1, 101), window(0.2, 51, 500)], 60.0, 70.0)
    assert point is not None
    assert point.at == 65
    assert point.batches == pytest.approx(150, abs=2)
    assert point.memory == 1500
    assert point.tail == pytest.approx(0.2)
    assert soaking.soak_point([window(0.1, 5, None)], 0.0, 1.0).memory is None  # type: ignore[union-attr]
    assert soaking.soak_point([window(0.1, 1)], 0.0, 1.0) is None


@pytest.mark.usefixtures("numpy_engine")
def test_instances_stay_alive_from_stretch_to_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stretch is handed on when it ends, so that it is stored."""
    monkeypatch.setattr(soaking, "SHORTEST", 0.1)
    work = numpy_classifier(tmp_path)
    request = Request(work, (numpy_setting(work),), SHORT, audit=False)
    own = Configuration(0, 1, 1, work.batch, Smt.OFF, plan(read_topology(), 1, 1))
    seen: list[Soak] = []
    task = Task(request, prepare(request, lambda event: None), own, 0, 0, None, extras=False)
    found = soaking.soak(task, 0.5, lambda event: None, seen.append)
    assert found.error is None
    assert len(found.points) == len(seen) >= 1
    assert all(a.at < b.at for a, b in zip(found.points, found.points[1:]))

"""Stretches of a soak test, and the trend over them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from toy_workloads import SHORT, numpy_classifier, numpy_setting

from modelzoo.machine.topology import read_topology
from modelzoo.measure.calls import prepare
from modelzoo.measure.request import Request
from modelzoo.records.instance import Window
from modelzoo.records.throughput import Configuration, Smt, Soak, SoakPoint
from modelzoo.report.throughput import soak_columns, soak_lines
from modelzoo.throughput import soak as soaking
from modelzoo.throughput.plan import plan
from modelzoo.throughput.round import Task


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


def points(drift: float, leak: float) -> tuple[SoakPoint, ...]:
    """Two hours in 60 stretches, with 1 % of noise: latency by ``drift`` per hour, memory by ``leak`` MB per hour."""
    source = random.Random(4)
    return tuple(
        SoakPoint(
            120.0 * n,
            120.0,
            1000,
            0.1 * (1 + drift * n / 30) * source.gauss(1, 0.01),
            None,
            int(2e9 + leak * 1e6 * n / 30),
        )
        for n in range(60)
    )


def test_the_trend_of_an_interrupted_test_is_not_extrapolated() -> None:
    """It is over the time for which it lasted."""
    lines = soak_lines(Soak(0, 7200.0, points(0.0, 0.0)[:10]))
    assert lines[0] == "The soak test was interrupted after 19 min of 2 h."
    assert " in 19 min [" in lines[1]
    assert soak_lines(Soak(0, 5.0)) == ["Nothing could be counted in the soak test; make --soak longer."]


def test_a_drift_is_told_from_noise() -> None:
    """Each with its trend per hour and the interval."""
    steady = soak_lines(Soak(0, 7200.0, points(0.0, 0.0)))
    assert steady[0].startswith("Median latency: no drift is proven, ")
    assert steady[2] == "Memory of all instances: no drift is proven, +0.0 MB per hour [+0.0, +0.0]."
    drifting = soak_lines(Soak(0, 7200.0, points(0.05, 30.0)))
    assert drifting[0].startswith("Median latency: drifts, +")
    assert drifting[2].startswith("Memory of all instances: drifts, +30.0 MB per hour")
    assert len(soak_columns(Soak(0, 7200.0, points(0.0, 0.0)))[0].cells) <= 12


def test_a_test_that_ended_early_says_why() -> None:
    """What was measured until then is shown."""
    lines = soak_lines(Soak(0, 7200.0, points(0.0, 0.0)[:20], error="instance 1: it was ended by SIGKILL"))
    assert lines[0] == "The soak test ended early: instance 1: it was ended by SIGKILL"
    assert len(lines) == 4
    assert (
        soak_lines(Soak(0, 60.0, points(0.0, 0.0)[:3]))[0] == "3 stretches are too few for a trend; make --soak longer."
    )


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

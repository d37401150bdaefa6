"""Issue and device time of a setting, over its processes."""

from __future__ import annotations

import pytest
from fake_runs import evidence, make, timing

from modelzoo.frozen import replace
from modelzoo.records.evidence import LogSource, ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.timing import DEVICE, ISSUE, Series
from modelzoo.results.summary import spans_of


def on_device(issue: float, device: float | None, kernels: float | None = None) -> Run:
    """A run with three samples of each span, and an audit of two passes whose kernels took ``kernels`` each."""
    found = timing([2.0] * 3)
    series = [Series(ISSUE, (issue,) * 3)]
    series += [] if device is None else [Series(DEVICE, (device,) * 3)]
    audit = replace(evidence(ProofVerdict.FP32), seconds=2 * (kernels or 0), log_source=LogSource.PROFILER)
    timed = replace(found, series=(*found.series, *series))
    return make([2.0] * 3, **{"timing": timed, "evidence": audit if kernels is not None else None})


def test_spans_are_geometric_means_of_the_processes() -> None:
    """As the latency is; a run on a CPU has none."""
    found = spans_of([on_device(1.0, 4.0), on_device(4.0, 4.0)])
    assert (found.issue, found.device) == (pytest.approx(2.0), pytest.approx(4.0))
    assert spans_of([make([1.0] * 3)]) is None


def test_without_events_there_is_no_device_time() -> None:
    """And nothing is said of launching."""
    found = spans_of([on_device(1.9, None)])
    assert found.device is None and not found.bound_by_launching

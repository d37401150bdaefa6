"""The values of options of the commands that start instances."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_runs import MACHINE

from modelzoo.cli import serving
from modelzoo.cli.measuring import latency_bound
from modelzoo.document.console import PlainConsole
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.records.serving import LatencyBound
from modelzoo.views.plots.plot import Plot


@pytest.mark.parametrize(
    ("text", "percentile", "seconds"),
    [("p99=50ms", 99, 0.05), ("p90=1.5s", 90, 1.5), ("p99.9=800us", 99.9, 8e-4), ("p50=.5ms", 50, 5e-4)],
)
def test_a_bound_is_a_percentile_and_a_time(text: str, percentile: float, seconds: float) -> None:
    """It is written again as it was given, in milliseconds."""
    found = latency_bound(text)
    assert (found.percentile, found.seconds) == (pytest.approx(percentile), pytest.approx(seconds))
    again = latency_bound(found.text)
    assert (again.percentile, again.seconds) == (found.percentile, pytest.approx(found.seconds))


@pytest.mark.parametrize(
    "text", ["", "p99", "99=50ms", "p99=50", "p99=-5ms", "p100=5ms", "p0=5ms", "p99=0ms", "p99=5m"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """A time without a unit would be guessed."""
    with pytest.raises(ArgumentTypeError, match="such as p99=50ms|under 100"):
        latency_bound(text)


def test_a_bound_names_its_percentile() -> None:
    """As tables show it."""
    assert LatencyBound(99, 0.05).name == "p99"
    assert LatencyBound(99.9, 0.0125).text == "p99.9=12.5ms"


PLOT = Plot("title", "caption", (), lambda figure: float(len(figure.subplots(1, squeeze=False))))


def test_nothing_is_timed_under_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its times are not those of the machine that it imitates."""
    monkeypatch.setattr(facts, "read_machine", lambda: replace(MACHINE, emulator="qemu"))
    with pytest.raises(UsageError, match="nothing can be timed under qemu"):
        serving.read_host()


def test_the_end_says_where_everything_is(tmp_path: Path) -> None:
    """The plot stands beside the result unless it is named; there need not be one."""

    def ended(named: str | None, plot: Plot | None = PLOT) -> list[str]:
        stored: Any = SimpleNamespace(path=Path("r.json"), is_kept=True)
        out = PlainConsole(width=80, soft_wrap=True)
        with out.capture() as printed:
            serving.end(named, stored, plot, out)
        return printed.get().splitlines()

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert ended(None) == ["result: r.json", "plot: r.svg"]
        assert ended("p.svg") == ["result: r.json", "plot: p.svg"]
        assert sorted(each.name for each in tmp_path.iterdir()) == ["p.svg", "r.svg"]
        assert ended(None, plot=None) == ["result: r.json"]
        with pytest.raises(UsageError, match="cannot write missing/p.svg: .*; name another file with --plot FILE"):
            ended("missing/p.svg")

"""What the commands that start instances share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_runs import MACHINE

from modelzoo.cli import serving
from modelzoo.document.console import PlainConsole
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.views.plots.plot import Plot

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

"""What ``throughput`` and ``load`` share; the tests of both have the options that are refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
from fake_runs import MACHINE
from rich.console import Console

from modelzoo.cli import serving
from modelzoo.document import Text
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.views.plots.plot import Plot

PLOT = Plot("title", Text("caption"), (), 90, lambda figure: None)


def test_nothing_is_timed_under_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its times are not those of the machine that it imitates."""
    monkeypatch.setattr(facts, "read_machine", lambda: replace(MACHINE, emulator="qemu"))
    with pytest.raises(UsageError, match="nothing can be timed under qemu"):
        serving.read_host()


def test_the_end_says_where_everything_is(tmp_path: Path) -> None:
    """The plot stands beside the result unless it is named; there need not be one."""

    def ended(named: Optional[str], plot: Optional[Plot] = PLOT) -> list[str]:
        stored: Any = SimpleNamespace(path=Path("r.json"))
        out = Console(width=80)
        with out.capture() as printed:
            serving.end(named, stored, plot, out)
        return printed.get().splitlines()

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert ended(None) == ["plot: r.svg", "result: r.json"]
        assert ended("p.svg") == ["plot: p.svg", "result: r.json"]
        assert sorted(each.name for each in tmp_path.iterdir()) == ["p.svg", "r.svg"]
        assert ended(None, plot=None) == ["result: r.json"]
        with pytest.raises(UsageError, match="cannot write missing/p.svg: .*; name another file with --plot FILE"):
            ended("missing/p.svg")

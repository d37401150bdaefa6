"""benchmarks/false_alarms.py: verdicts on kept results."""

from __future__ import annotations

import sys
from pathlib import Path

import false_alarms
import numpy as np
import pytest
from fake_runs import make, result_of

from modelzoo.results import store
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((1.0, 1.0, 1.03), ["holds: equals called", "holds: slowdowns of 3 % found: 5 of 5"]),
        ((1.0, 1.03, 1.0), ["DOES NOT HOLD: equals called FASTER or SLOWER: 5 of 5", "DOES NOT HOLD: slowdowns"]),
    ],
)
def test_results_that_were_kept_are_judged(
    levels: tuple[float, ...],
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is measured again; a clear difference is found, whether there should be one or not."""
    generator = np.random.default_rng(1)
    for number in range(5):
        noise = np.exp(generator.normal(0, 0.002, (3, 8)))
        runs = [
            make([level * float(noise[group, index])] * 3, setting=Setting(seed=group), group=group, round=index)
            for group, level in enumerate(levels)
            for index in range(8)
        ]
        store.write(result_of(*runs), tmp_path / f"{number}.json")
    monkeypatch.setattr(sys, "argv", ["false_alarms.py", "--results", str(tmp_path), "--comparisons", "5"])
    assert false_alarms.main() == ("DOES NOT" in said[0])
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert all(line.startswith(start) for line, start in zip(lines, said))

"""benchmarks/session_pairs.py: which sessions are compared with which, and what becomes of planted differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import session_pairs
from proven_results import session

from modelzoo.comparison.model import StoredResult
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.stats import Basis

STEADY = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0005, 0.0015)
"""Log levels of seven sessions that are alike."""


def sessions(logs: Sequence[float]) -> list[Result]:
    """Sessions with these levels, one a day."""
    return [session(0.1 * math.exp(log), day) for day, log in enumerate(logs, 1)]


def call(directory: Path, logs: Sequence[float]) -> int:
    """The benchmark's exit code for these sessions."""
    paths = []
    for number, result in enumerate(sessions(logs)):
        paths.append(directory / f"{number}.json")
        store.write(result, paths[-1])
    return session_pairs.main(list(map(str, paths)))


def test_sessions_that_are_alike_are_called_nothing(tmp_path: Path, capsys: Any) -> None:
    """Seven sessions: 21 pairs, and 7 × 10 splits; each ratio has the basis that it should."""
    assert call(tmp_path, STEADY) == 0
    out = capsys.readouterr().out
    assert "holds: assumed: 0 of 21 rows in 0 of 21 comparisons are called" in out
    assert "holds: sessions: 0 of 70 rows in 0 of 70 comparisons are called" in out


def test_a_session_that_is_far_off_is_called(tmp_path: Path, capsys: Any) -> None:
    """Half of the speed is a difference under every assumption."""
    assert call(tmp_path, (*STEADY[:6], 0.7)) == 1
    assert "DOES NOT HOLD: assumed: 6 of 21 rows in 6 of 21 comparisons are called" in capsys.readouterr().out


def test_too_few_sessions_show_nothing(tmp_path: Path, capsys: Any) -> None:
    """The claims that they cannot show are named, with what is missing."""
    assert call(tmp_path, STEADY[:4]) == 1
    out = capsys.readouterr().out
    assert "not shown: sessions: 4 results, 6 are needed" in out


def test_inputs_can_be_taken_for_the_same(tmp_path: Path, capsys: Any) -> None:
    """Sessions with other inputs are not comparable, unless it is said that their inputs do not matter."""
    paths = []
    for day, digest in ((1, "one"), (2, "two")):
        paths.append(str(tmp_path / f"{day}.json"))
        store.write(session(0.1, day, inputs_digest=digest), Path(paths[-1]))
    session_pairs.main(paths)
    assert "1 rows have another basis or none" in capsys.readouterr().out
    session_pairs.main([*paths, "--same-inputs"])
    assert "holds: assumed: 0 of 1 rows in 0 of 1 comparisons are called" in capsys.readouterr().out


def test_each_split_occurs_once() -> None:
    """Six sessions are divided into three and three in 10 ways, and no session is on both sides."""
    results = [StoredResult(str(number), result) for number, result in enumerate(sessions(STEADY[:6]))]
    (way,) = (each for each in session_pairs.ways(results) if each.basis is Basis.SESSIONS)
    seen = {frozenset(frozenset(stored.path for stored in half) for half in pair) for pair in way.pairs}
    assert len(seen) == len(way.pairs) == 10
    assert all(len(half) == 3 for pair in seen for half in pair)
    assert all(len(frozenset.union(*pair)) == 6 for pair in seen)


def test_unusable_files_are_named_in_one_line(tmp_path: Path, capsys: Any) -> None:
    """Exit code 2."""
    assert session_pairs.main([str(tmp_path / "missing.json")]) == 2
    assert capsys.readouterr().err.startswith("error: ")

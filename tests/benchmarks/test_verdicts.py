"""benchmarks/verdicts.py: planted promises are replayed, judged and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import verdicts
from promises import Counted, Promise, Replayed, clopper_pearson

PAGE = f"# Verdicts\n\nBefore.\n\n{verdicts.BEGIN}\nan old table\n{verdicts.END}\n\nAfter.\n"
MODULE = '''
"""Planted promises."""

from promises import Counted, Promise


def happens(share, width=None):
    return lambda random, repetitions: Counted(int((random.random(repetitions) < share).sum()), repetitions, width)


PROMISES = (
    Promise("run", "equal sides", "FASTER", 0.02, happens(0.02), repetitions=1000),
    Promise("run", "a | b", "covers", 0.95, happens(1.0, 1.4), is_least=True, repetitions=1000, why="few processes"),
    Promise("validate", "at the limit", "VALID", 0.05, happens(0.03), repetitions=1000),
)
'''
CONTRADICTED = """
PROMISES += (Promise("load", "p99 at the bound", "VALID", 0.01, happens(0.1), repetitions=1000),)
"""
Plant = Callable[..., str]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return a function that writes a module of promises where processes of the pool find it, too."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(*more: str) -> str:
        # Python keeps modules by name, and another test's module is another one.
        name = f"planted_{tmp_path.name}_{len(list(tmp_path.glob('*.py')))}"
        (tmp_path / f"{name}.py").write_text("".join((MODULE, *more)))
        return name

    return write


def test_promises_that_hold(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and a row for each with its share and bounds; a wide interval has its width and a reason."""
    assert verdicts.main((), (plant(),)) == 0
    shown = capsys.readouterr()
    header, *rows = shown.out.splitlines()[:4]
    assert header.split("  ")[0] == "command"
    assert [row.split()[0] for row in rows] == ["run", "run", "validate"]
    assert all(row.endswith("yes") for row in rows)
    assert "≤ 2 %" in rows[0]
    for text in ("≥ 95 %", "100.00 % [99.31, 100.00]", " 1.40 ", "few processes"):
        assert text in rows[1]
    assert shown.out.splitlines()[-1] == "3 of 3 promises hold"
    assert shown.err.splitlines()[0] == "1 of 3: run: equal sides: FASTER: yes"


def test_a_contradicted_promise_fails_and_the_page_gets_the_table(
    plant: Plant, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and the promise is named; only what is between the markers changes, and twice gives the same."""
    page = tmp_path / "verdicts.md"
    page.write_text(PAGE, encoding="utf-8")
    name = plant(CONTRADICTED)
    for _ in range(2):
        assert verdicts.main(("--markdown", str(page)), (name,)) == 1
        assert capsys.readouterr().out.splitlines()[-2:] == [
            "3 of 4 promises hold",
            "NO: contradicted: load: p99 at the bound: VALID",
        ]
        text = page.read_text(encoding="utf-8")
        begin = f"# Verdicts\n\nBefore.\n\n{verdicts.BEGIN}\n\n4 promises, replayed with `--seed 0`:\n\n"
        assert text.startswith(begin)
        assert text.endswith(f"|\n\n{verdicts.END}\n\nAfter.\n")
        assert "an old table" not in text
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
        assert [len(row) for row in rows] == [5] * 6
        assert "a \\| b" in rows[3][2]
        assert "0 of 1" in rows[5][-1]


@pytest.mark.parametrize(
    ("hits", "promised", "is_least", "width", "why", "problem"),
    [
        (70, 0.05, False, None, "", ""),
        (75, 0.05, False, None, "", "NO: contradicted"),
        (930, 0.95, True, None, "", ""),
        (925, 0.95, True, None, "", "NO: contradicted"),
        (975, 0.95, True, None, "", ""),
        (990, 0.95, True, 1.4, "few processes", ""),
        (990, 0.95, True, 1.4, "", "NO: wide, without its width or a reason"),
        (990, 0.95, True, None, "few processes", "NO: wide, without its width or a reason"),
        (990, 0.8, True, None, "", ""),
    ],
)
def test_the_bounds_decide(
    hits: int, promised: float, is_least: bool, width: float | None, why: str, problem: str
) -> None:
    """A share on the wrong side of the promise contradicts it only if its bound is there, too."""
    promise = Promise("run", "a", "b", promised, lambda random, n: Counted(0, n), is_least, why=why)
    assert Replayed(promise, Counted(hits, 1000, width)).problem == problem


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 100, 0.0, 0.0362),
        (5, 100, 0.0164, 0.1128),
        (50, 100, 0.3983, 0.6017),
        (100, 100, 0.9638, 1.0),
        (45_600, 48_000, 0.9480, 0.9519),
    ],
)
def test_clopper_pearson(hits: int, trials: int, low: float, high: float) -> None:
    """Values from published tables; large numbers of trials do not underflow."""
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), abs=1e-4)


def test_what_is_replayed_depends_on_the_seed_and_the_promise_alone(plant: Plant) -> None:
    """Not on the order, on other promises, or on how many processes there are."""

    def hits(name: str, seed: int, processes: int) -> dict[str, int]:
        found = verdicts.replay(verdicts.places([name]), seed, None, processes)
        return {each.promise.text: each.counted.hits for each in found}

    first, reordered = plant(), plant("PROMISES = PROMISES[::-1]\n", CONTRADICTED)
    found = hits(first, 7, 1)
    assert found == hits(first, 7, 2)
    assert found.items() <= hits(reordered, 7, 2).items()
    assert found != hits(first, 8, 1)
    assert len(set(found.values())) == 3


def test_promises_are_told_apart_by_their_text() -> None:
    """Each row of the table is another one, with random numbers of its own."""
    texts = [verdicts.promise_at(place).text for place in verdicts.places(verdicts.MODULES)]
    assert len(set(texts)) == len(texts)

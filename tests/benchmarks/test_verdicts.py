"""benchmarks/verdicts.py: planted promises are replayed, judged and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import verdicts
from promises import Bound, Counted, Promise, Replayed

PAGE = f"# Verdicts\n\nBefore.\n\n{verdicts.BEGIN}\nan old table\n{verdicts.END}\n\nAfter.\n"
MODULE = '''
"""Planted promises."""

from promises import Bound, Counted, Promise


def happens(share, width=None):
    return lambda random, repetitions: Counted(int((random.random(repetitions) < share).sum()), repetitions, width)


PROMISES = (
    Promise("run", "equal sides", "FASTER", Bound.AT_MOST, 0.02, happens(0.02), 1000),
    Promise("run", "interval of 8 processes", "covers", Bound.AT_LEAST, 0.95, happens(0.95, 1.1), 1000),
    Promise("validate", "at the limit", "VALID", Bound.AT_MOST, 0.05, happens(0.03), 1000),
)
'''
CONTRADICTED = """
PROMISES += (Promise("load", "p99 at the bound", "VALID", Bound.AT_MOST, 0.01, happens(0.1), 1000),)
"""
WIDE = """
PROMISES += (Promise("load", "a | b", "covers", Bound.AT_LEAST, 0.95, happens(1.0, {width}), 1000, why="{why}"),)
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


def exit_code(name: str, *words: str) -> int:
    """Replay the promises of a planted module."""
    return verdicts.main(words, (name,))


def test_promises_that_hold(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and a row for each with its share and bounds."""
    assert exit_code(plant()) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == "3 of 3 promises hold"
    header, *rows = shown.out.splitlines()[:4]
    assert header.split("  ")[0] == "command"
    assert [row.split()[0] for row in rows] == ["run", "run", "validate"]
    assert all(row.endswith("yes") for row in rows)
    assert "≤ 2 %" in rows[0]
    assert "≥ 95 %" in rows[1]
    assert "1.10" in rows[1]
    assert shown.err.splitlines()[0] == "1 of 3: run: equal sides: FASTER: yes"


def test_a_contradicted_promise(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the promise is named."""
    assert exit_code(plant(CONTRADICTED)) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "3 of 4 promises hold",
        "NO: contradicted: load: p99 at the bound: VALID",
    ]


@pytest.mark.parametrize(
    ("width", "why", "code"), [("1.4", "few processes", 0), ("1.4", "", 1), ("None", "few processes", 1)]
)
def test_a_wide_interval_needs_its_width_and_a_reason(
    width: str, why: str, code: int, plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that covers everything holds, but must say what that costs and why it is so."""
    assert exit_code(plant(WIDE.format(width=width, why=why)), "--only", "load") == code
    lines = capsys.readouterr().out.splitlines()
    if code:
        assert lines[-1] == "NO: wide, without its width or a reason: load: a | b: covers"
    else:
        assert "100.00 % [99.31, 100.00]" in lines[1]
        assert why in lines[1]


def test_the_bounds_decide() -> None:
    """A share on the wrong side of the promise contradicts it only if its bound does."""

    def replayed(hits: int, bound: Bound, promised: float) -> Replayed:
        promise = Promise("run", "a", "b", bound, promised, lambda random, n: Counted(0, n))
        return Replayed(promise, Counted(hits, 1000))

    assert replayed(70, Bound.AT_MOST, 0.05).holds
    assert not replayed(75, Bound.AT_MOST, 0.05).holds
    assert replayed(930, Bound.AT_LEAST, 0.95).holds
    assert not replayed(925, Bound.AT_LEAST, 0.95).holds
    assert replayed(990, Bound.AT_LEAST, 0.95).is_wide
    assert not replayed(975, Bound.AT_LEAST, 0.95).is_wide
    assert not replayed(990, Bound.AT_LEAST, 0.8).is_wide
    assert not replayed(990, Bound.AT_MOST, 0.95).is_wide


def test_what_is_replayed_depends_on_the_seed_and_the_promise_alone(plant: Plant) -> None:
    """Not on the order, on other promises, or on how many processes there are."""

    def hits(name: str, seed: int, processes: int) -> dict[str, int]:
        requested = verdicts.tasks([name], seed, None)
        return {verdicts.text_of(e.promise): e.counted.hits for e in verdicts.replay(requested, processes)}

    first, reordered = plant(), plant("PROMISES = PROMISES[::-1]\n", CONTRADICTED)
    found = hits(first, 7, 1)
    assert found == hits(first, 7, 2)
    assert found.items() <= hits(reordered, 7, 2).items()
    assert found != hits(first, 8, 1)
    assert len(set(found.values())) == 3


def test_the_page_gets_the_table(plant: Plant, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between the markers only; twice gives the same page, and a promise that does not hold is shown as well."""
    page = tmp_path / "verdicts.md"
    page.write_text(PAGE, encoding="utf-8")
    name = plant(CONTRADICTED, WIDE.format(width="1.4", why="few processes"))
    for _ in range(2):
        assert exit_code(name, "--markdown", str(page)) == 1
        text = page.read_text(encoding="utf-8")
        assert text.startswith(
            f"# Verdicts\n\nBefore.\n\n{verdicts.BEGIN}\n\n5 promises, replayed with `--seed 0`:\n\n"
        )
        assert text.endswith(f"|\n\n{verdicts.END}\n\nAfter.\n")
        assert "an old table" not in text
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
        assert [len(row) for row in rows] == [5] * 7
        assert "0 of 1" in rows[5][-1]
        assert "a \\| b" in rows[6][2]
    capsys.readouterr()


def test_only_some_commands(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """As a list or repeated, with as many repetitions as asked for."""
    name = plant(CONTRADICTED)
    assert exit_code(name, "--only", "run,validate", "--repetitions", "50") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 promises hold"
    assert exit_code(name, "--only", "run", "--only", "validate", "--repetitions", "50") == 0
    assert " 50 " in capsys.readouterr().out.splitlines()[1]


def test_what_cannot_be_replayed_is_one_line(plant: Plant, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, before anything is replayed."""
    page = tmp_path / "page.md"
    page.write_text("no markers", encoding="utf-8")
    gone = tmp_path / "gone.md"
    lacks = f"the page lacks the lines '{verdicts.BEGIN}' and '{verdicts.END}', between which the table belongs"
    whole = "--markdown writes the whole table; leave out --only"
    again = "PROMISES += PROMISES[:1]\n"
    for name, words, message in (
        ("verdicts_of_nothing", (), "benchmarks/verdicts_of_nothing.py is missing; it declares PROMISES"),
        (plant("PROMISES = ()\n"), (), "declares no PROMISES"),
        (plant(again), (), "promised twice: run: equal sides: FASTER"),
        (plant(), ("--only", "walk"), "--only walk: choose from run, validate"),
        (plant(), ("--repetitions", "0"), "--repetitions must be at least 1"),
        (plant(), ("--processes", "0"), "--processes must be at least 1"),
        (plant(), ("--seed", "-1"), "--seed must not be negative"),
        (plant(), ("--markdown", str(page), "--only", "run"), whole),
        (plant(), ("--markdown", str(page)), lacks),
        (plant(), ("--markdown", str(gone)), f"{gone}: No such file or directory"),
    ):
        with pytest.raises(SystemExit) as ended:
            exit_code(name, *words)
        assert ended.value.code == 2
        *usage, line = capsys.readouterr().err.splitlines()
        assert line.startswith("verdicts") or ": error: " in line
        assert line.endswith(message), (line, message)
        assert not any("of 3:" in each for each in usage), "nothing was replayed"


def test_an_import_that_fails_in_a_module_is_not_called_missing(plant: Plant) -> None:
    """The module is there; what it needs is not."""
    name = plant("import nothing_of_this_name\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        exit_code(name)

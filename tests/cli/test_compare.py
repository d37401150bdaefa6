"""modelzoo compare: files in, a table and an exit code out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from calls import called
from fake_runs import WEIGHTS, evidence
from instances import served
from places import DATA
from proven_results import BF16, FP32, session, session_of, sessions, written

from modelzoo.cli.options import FORMATS
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.results.refusals import ALLOWABLE
from modelzoo.setting import Setting

MLP = DATA / "results" / "mlp.json"


def stored(path: Path, result: Result) -> Path:
    store.write(result, path)
    return path


def sides(directory: Path, base: list[Result], other: list[Result]) -> tuple[Path, Path]:
    """Two directories of sessions, called old and new."""
    return written(directory / "old", *base), written(directory / "new", *other)


@pytest.mark.parametrize(
    ("level", "conditions", "code"),
    [
        (0.2, ["slower:3%,ambiguous"], 1),
        (0.102, ["slower:0.03"], 0),
        (0.12, ["slower:30%"], 0),
        (0.2, [], 0),
        (0.2, ["invalid,unproven", "slower:200%"], 0),
        (0.1, ["slower"], 0),
    ],
)
def test_exit_codes(tmp_path: Path, level: float, conditions: list[str], code: int) -> None:
    """1 for a planted slowdown, 0 for A against A and without conditions."""
    options = [word for condition in conditions for word in ("--fail-on", condition)]
    assert called("compare", *sides(tmp_path, sessions(0.1), sessions(level, first_day=11)), *options).code == code


@pytest.mark.parametrize(
    ("kind", "setting", "changes", "verdict"),
    [
        ("weights", FP32, {"weights": replace(WEIGHTS, sha256="other")}, "FASTER"),
        ("unproven", FP32, {"evidence": None}, "FASTER (unproven)"),
        ("inactive", BF16, {"evidence": evidence(ProofVerdict.NOT_ACTIVE)}, "FASTER (unproven)"),
    ],
)
def test_no_comparable_row_is_exit_code_2(
    tmp_path: Path, kind: str, setting: Setting, changes: dict[str, Any], verdict: str
) -> None:
    """The table with the reason is shown all the same, and ``--allow`` lets the row through."""
    rows = [("toy", setting, 0.1)]
    base, other = sides(tmp_path, [session_of([("toy", setting, 0.5)])], [session_of(rows, 2, **changes)])
    code, out, err = called("compare", base, other)
    assert code == 2
    assert "NOT COMPARABLE [1]" in out
    assert err == "modelzoo: error: no row of new is comparable with old; the table says why\n"
    code, out, _ = called("compare", base, other, "--allow", kind)
    assert code == 0
    assert "] allowed: " in out
    assert f" {verdict} (assumed) [" in out


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 in the name of a file, in every format."""
    path = stored(tmp_path / "\udcff\n[red].json", session())
    for form in FORMATS:
        code, out, _ = called("compare", path, path, "--format", form)
        assert code == 0
        assert "dcff" in out


@pytest.mark.parametrize(
    ("form", "suffix", "start"),
    [
        ("terminal", ".txt", "new compared with old"),
        ("markdown", ".md", "### new compared with old"),
        ("csv", ".csv", "base,other,workload"),
        ("json", ".json", '{"format":"modelzoo-comparison/1.0"'),
        ("junit", ".xml", '<testsuites name="modelzoo compare">'),
    ],
)
def test_formats_go_to_stdout_or_to_a_file(tmp_path: Path, form: str, suffix: str, start: str) -> None:
    """The same text in both; the suffix of a file decides if no format is named."""
    paths = sides(tmp_path, [session()], [session(day=2)])
    code, out, _ = called("compare", *paths, "--format", form)
    assert (code, out.startswith(start)) == (0, True)
    for words, file in ((("--format", form), tmp_path / "out"), ((), tmp_path / f"out{suffix}")):
        assert called("compare", *paths, *words, "-o", file) == (0, "", "")
        assert file.read_text(encoding="utf-8") == out


def test_a_page_has_the_money_the_speed_the_proof_and_each_result(tmp_path: Path) -> None:
    """Of two results of 'modelzoo throughput'; the exit code is that of the table."""
    slower = [40 * each for each in (1.0, 1.01, 0.99, 1.0)]
    paths = [stored(tmp_path / f"{n}.json", served(rates)) for n, rates in (("old", slower), ("new", slower[::-1]))]
    page, report = tmp_path / "page.html", tmp_path / "report.html"
    prices = ("--price", "old=0.4", "--price", "new=0.1")
    assert called("compare", *paths, *prices, "-o", page) == (0, f"page: {page}\n", "")
    text = page.read_text(encoding="utf-8")
    for words in ("CHEAPER", "Cost of a million rows", "rows/s", "Kernels and accuracy", "accuracy of new"):
        assert words in text
    assert called("report", *paths, "--price", "BASE=0.4", "--price", "OTHER=0.1", "-o", report).code == 0
    assert report.read_text(encoding="utf-8") == text
    for command in ("report", "compare"):
        assert called(command, *paths, *prices, "--redact", "-o", report).code == 0
        hidden = report.read_text(encoding="utf-8")
        assert "CHEAPER" in hidden, "prices follow sides whose names are hidden"
        assert str(tmp_path) not in hidden
    for words, code in ((["--details"], 2), (paths[:1] * 5, 2), (["--fail-on", "ambiguous"], 1)):
        assert called("compare", *paths, *words, "-o", page).code == code


def test_a_side_is_a_list_of_files_or_a_directory(tmp_path: Path) -> None:
    """Three days a side know their own variance; with one day on a side it is assumed, and that is said."""
    paths = sides(tmp_path, [session(0.1, day) for day in (1, 2, 3)], [session(0.2, day) for day in (4, 5, 6)])
    listed = [",".join(map(str, sorted(path.iterdir()))) for path in paths]
    directories, lists = called("compare", *paths), called("compare", f"old={listed[0]}", f"new={listed[1]}")
    assert (directories.code, directories.out.split("verdict")[1]) == (lists.code, lists.out.split("verdict")[1])
    assert "SLOWER" in lists.out and "basis: the sessions that are compared" in lists.out
    assert "10 % (assumed)" in called("compare", paths[0], f"new={listed[1].split(',')[0]}").out


def test_the_help_names_all_that_can_be_allowed() -> None:
    """It is written out, because the help must not read the comparison's modules."""
    words = re.findall(r"[a-z]+", called("compare", "--help").out)
    assert {str(each) for each in ALLOWABLE} <= set(words)


def test_a_label_names_a_result(tmp_path: Path) -> None:
    """In report and in compare, unless NAME=PATH says otherwise, or two results have the same label.

    A path that exists may contain an equals sign.
    """
    paths = [renamed(tmp_path / f"{name}.json", hour, label) for hour, name, label in LABELLED]
    for words, title in (
        (paths, "before compared with with AMX"),
        ((paths[0], f"new={paths[1]}"), "new compared with with AMX"),
        ((paths[0], paths[0], f"new={paths[1]}"), "a=b #2 compared with a=b"),
        ((paths[0], paths[0], f"new={paths[1]}"), "new compared with a=b"),
    ):
        assert title in called("compare", *words).out
    assert f"{paths[0]}: with AMX, " in called("report", paths[0]).out


LABELLED = ((1, "a=b", "with AMX"), (2, "c", "before"))


def renamed(path: Path, hour: int, label: str = "") -> Path:
    """A stored result of another hour, with a label."""
    content = {**json.loads(MLP.read_text()), "created": f"2026-11-24T0{hour}:15:00+00:00", "name": label}
    path.write_text(json.dumps(content))
    return path


def test_default_names_fit_a_terminal(tmp_path: Path) -> None:
    """The names that run gives without -o, in a table whose verdict rests on an assumption: at most 100 columns."""
    paths = [renamed(tmp_path / f"2026-11-24T0{hour}1500Z.json", hour) for hour in (3, 4)]
    code, out, _ = called("compare", *paths, "--metric", "latency")
    assert code == 0
    assert "11-24 03:15" in out and "11-24 04:15" in out and "AMBIGUOUS (assumed)" in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 100

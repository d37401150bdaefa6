"""modelzoo compare: files in, a table and an exit code out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fake_runs import MACHINE, WEIGHTS, evidence, make, result_of
from instances import served
from places import DATA
from proven_results import BF16, FP32, session, session_of, sessions, written
from stored_results import STORED, name, unpacked

from modelzoo.cli import app
from modelzoo.cli.compare import FORMATS, fail_on
from modelzoo.cli.output import SUFFIXES
from modelzoo.comparison.compare import FailOn
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.results.refusals import ALLOWABLE

MLP = DATA / "results" / "mlp.json"


def run(*words: object) -> int:
    """The exit code of ``modelzoo compare`` with these words."""
    return app.main(["compare", *map(str, words)])


def stored(directory: Path, result: Result, name: str = "result.json") -> Path:
    """The file of a result."""
    path = directory / name
    store.write(result, path)
    return path


def sides(directory: Path, base: list[Result], other: list[Result]) -> tuple[Path, Path]:
    """Two directories of sessions, called old and new."""
    return written(directory / "old", *base), written(directory / "new", *other)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What is on stderr, which must be one line."""
    error = capsys.readouterr().err
    assert error.startswith("modelzoo: error: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error


def test_directories_of_sessions_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is the product of this command, so it goes to stdout."""
    assert run(*sides(tmp_path, sessions(0.1), sessions(0.2, first_day=11))) == 0
    found = capsys.readouterr()
    assert found.err == ""
    assert "new compared with old" in found.out
    assert "SLOWER" in found.out
    assert "basis: the sessions that are compared" in found.out


def test_a_real_result_compared_with_itself_is_neither_faster_nor_slower(capsys: pytest.CaptureFixture[str]) -> None:
    """And the second side has a name of its own."""
    assert run(MLP, MLP) == 0
    out = capsys.readouterr().out
    assert "mlp #2 compared with mlp" in out
    assert "FASTER" not in out
    assert "SLOWER" not in out


def test_several_others_have_a_table_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each against the baseline."""
    paths = [stored(tmp_path, session(0.1, day), f"{day}.json") for day in (1, 2, 3)]
    assert run(*paths) == 0
    out = capsys.readouterr().out
    assert "2 compared with 1" in out
    assert "3 compared with 1" in out


def test_sides_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``NAME=PATH``; a path that exists may contain an equals sign."""
    base, other = stored(tmp_path, session(0.1), "a=b.json"), stored(tmp_path, session(0.1, 2))
    assert run(base, f"the new one={other}") == 0
    assert "the new one compared with a=b" in capsys.readouterr().out


def test_equal_file_names_are_told_apart_by_their_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As little of the path as that takes."""
    base, other = (stored(tmp_path / place, session(0.1, day), "s.json") for day, place in enumerate("ab", 1))
    assert run(base, other) == 0
    assert "b/s compared with a/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("level", "conditions", "code"),
    [
        (0.2, ["slower:3%"], 1),
        (0.1, ["slower:3%"], 0),
        (0.2, [], 0),
        (0.2, ["invalid,unproven", "slower:200%"], 0),
        (0.1, ["slower"], 0),
    ],
)
def test_exit_codes(tmp_path: Path, level: float, conditions: list[str], code: int) -> None:
    """1 for a planted slowdown, 0 for A against A and without conditions."""
    options = [word for condition in conditions for word in ("--fail-on", condition)]
    assert run(*sides(tmp_path, sessions(0.1), sessions(level, first_day=11)), *options) == code


def broken(kind: str) -> Result:
    """A session that is not comparable with ``session()`` for one reason."""
    setting = BF16 if kind == "inactive" else FP32
    changes = {
        "weights": {"weights": replace(WEIGHTS, sha256="other")},
        "inputs": {"inputs_digest": "other"},
        "unproven": {"evidence": None},
        "inactive": {"evidence": evidence(ProofVerdict.NOT_ACTIVE)},
        "emulator": {"machine": replace(MACHINE, emulator="qemu")},
        "unrecorded": {"inputs_digest": None},
    }[kind]
    return session_of([("toy", setting, 0.1)], 2, **changes)


@pytest.mark.parametrize("kind", ["weights", "inputs", "unproven", "inactive", "emulator", "unrecorded"])
def test_no_comparable_row_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """The table with the reason is shown all the same, and ``--allow`` lets the row through."""
    setting = BF16 if kind == "inactive" else FP32
    base, other = sides(tmp_path, [session_of([("toy", setting, 0.5)])], [broken(kind)])
    assert run(base, other) == 2
    found = capsys.readouterr()
    assert "NOT COMPARABLE [1]" in found.out
    assert found.err == "modelzoo: error: no row of new is comparable with old; the table says why\n"
    assert run(base, other, "--allow", kind) == 0
    shown = capsys.readouterr().out
    assert "[1] allowed: " in shown.replace("[2] allowed", "[1] allowed")
    assert ("FASTER (unproven)" in shown) == (kind in ("unproven", "inactive"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        ("", "is not JSON"),
        ("{}", "is not a result of modelzoo"),
        ("[1, 2]", "is not a result of modelzoo"),
        ('{"format": "modelzoo-result/5.0", "version": "9"}', "newer than this suite's"),
        ('{"format": "modelzoo-result/4.99", "version": "9", "runs": 1}', "newer than this suite's"),
        ('{"format": "modelzoo-result/0.1", "version": "9"}', "older"),
        ('{"format": "modelzoo-result/4.0", "version": "9", "command": [], "created": "x"}', "nothing was measured"),
        (MLP.read_text(encoding="utf-8")[:5000], "is not JSON"),
    ],
)
def test_files_that_are_no_results_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    """Missing, empty, malformed, truncated, newer or without measurements: exit code 2, and nothing on stdout."""
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert run(MLP, path) == 2
    assert message in one_line(capsys)


def test_directories_without_results_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are more likely a mistake than a side without sessions."""
    (tmp_path / "notes.txt").write_text("none", encoding="utf-8")
    assert run(MLP, tmp_path) == 2
    assert str(tmp_path) in one_line(capsys)


def test_results_that_do_not_belong_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with results of different settings."""
    directory = written(tmp_path / "mixed", session(), session_of([("toy", BF16, 0.1)], 2))
    assert run(directory, MLP) == 2
    assert "hold different workloads or settings" in one_line(capsys)


@pytest.mark.parametrize("path", STORED, ids=name)
def test_real_results_are_compared_or_say_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    """Early results have no digest of the inputs, so nothing can be compared; they are read all the same."""
    file = unpacked(path, tmp_path)
    code = run(file, file)
    found = capsys.readouterr()
    assert code in (0, 2)
    if "early" in path.name and code == 2:
        assert "was not recorded" in found.out or "failed: " in found.out or "nothing was measured" in found.err
    if code == 2:
        assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-on", "faster"], "--fail-on must be slower:3%, more:3% or one of"),
        (["--fail-on", "slower:lots"], "'lots' is not a fraction"),
        (["--fail-on", "slower:3"], "--fail-on 'slower:3': '3' may mean 3 % or 300 %; write it with its sign: 3%"),
        (["--fail-on", "more:3"], "--fail-on 'more:3': '3' may mean 3 % or 300 %; write it with its sign: 3%"),
        (["--fail-on", "invalid:3%"], "--fail-on must be"),
        (["--fail-on", "more:3%"], "does not fit --metric latency; write slower:3%"),
        (["--fail-on", "more"], "does not fit --metric latency; write slower (see"),
        (["--allow", "everything"], "--allow must be one of weights, inputs"),
        (["--pair", "fp32:bf16"], "must have the form BASE:OTHER"),
        (["--pair", "mode=script:mode=compile"], "pairs nothing"),
        (["--assume-spread", "0"], "--assume-spread must be over 0 %"),
        (["--assume-spread", "100%"], "--assume-spread must be over 0 %"),
        (["--price", "old=much"], "--price must be NAME=PRICE"),
        (["--price", "@missing.csv"], "--price: missing.csv cannot be read"),
        (["--format", "html"], "--format html is a page; name its file with -o FILE"),
        (["-o", "page.pdf"], "-o page.pdf: name a file that ends in .txt, .md, .html, .htm, .csv, .json, .xml, or"),
        (["-o", "missing/directory/file.md"], "cannot write missing/directory/file.md: there is no directory"),
    ],
)
def test_options_that_are_not_valid_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """With exit code 2."""
    assert run(MLP, MLP, *words) == 2
    assert message in one_line(capsys)


@pytest.mark.parametrize("text", ["slower", "slower:3%", "slower:0.5%", "ambiguous"])
def test_a_condition_is_shown_as_it_was_typed(text: str) -> None:
    """``slower`` alone is the verdict, not a bound of 0 %."""
    assert [str(condition) for condition in fail_on([text], "latency")] == [text]


@pytest.mark.parametrize("path", ["", "a" * 5000, "name=", "\udcff.json", "a\nb.json"])
def test_paths_that_cannot_be_read_are_one_line(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Empty, too long, without a path, not UTF-8, and with a line break."""
    assert run(MLP, path) == 2
    one_line(capsys)


def test_names_that_are_no_text_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are not UTF-8 in the name of a file, in every format."""
    path = stored(tmp_path, session(), "\udcff\n[red].json")
    for form in FORMATS:
        assert run(path, path, "--format", form) == 0
        assert "dcff" in capsys.readouterr().out


def test_two_sides_cannot_have_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The table could not tell them apart."""
    assert run(f"a={MLP}", f"a={MLP}") == 2
    assert "two results are called a" in one_line(capsys)


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("terminal", "new compared with old"),
        ("markdown", "### new compared with old"),
        ("csv", "base,other,workload"),
        ("json", '{"format":"modelzoo-comparison/1.0"'),
        ("junit", '<testsuites name="modelzoo compare">'),
    ],
)
def test_formats_go_to_stdout_or_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, start: str
) -> None:
    """The same text in both; the suffix of a file decides if no format is named."""
    paths = sides(tmp_path, [session()], [session(day=2)])
    assert run(*paths, "--format", form) == 0
    out = capsys.readouterr().out
    assert out.startswith(start)
    suffix = next(suffix for suffix, each in SUFFIXES.items() if each == form)
    for words, file in ((("--format", form), tmp_path / "out"), ((), tmp_path / f"out{suffix}")):
        assert run(*paths, *words, "-o", file) == 0
        assert file.read_text(encoding="utf-8") == out
    assert capsys.readouterr().out == ""


def test_prices_are_given_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice as fast at half of the price costs a quarter."""
    paths = sides(tmp_path, [session(0.1)], [session(0.05, 2)])
    assert run(*paths, "--price", "old=0.4", "--price", "new=0.2", "--format", "json") == 0
    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert comparison["costs"][0]["ratio"]["value"] == pytest.approx(4.0, rel=0.01)


def test_a_page_has_the_money_the_speed_the_proof_and_each_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two results of 'modelzoo throughput'; the exit code is that of the table."""
    slower = [40 * each for each in (1.0, 1.01, 0.99, 1.0)]
    paths = [stored(tmp_path, served(rates), f"{n}.json") for n, rates in (("old", slower), ("new", slower[::-1]))]
    page = tmp_path / "page.html"
    assert run(*paths, "--price", "old=0.4", "--price", "new=0.1", "-o", page) == 0
    assert capsys.readouterr().out == f"page: {page}\n"
    text = page.read_text(encoding="utf-8")
    for words in ("CHEAPER", "Cost of a million rows", "rows/s", "Kernels and accuracy", "accuracy of new"):
        assert words in text
    report = tmp_path / "report.html"
    assert app.main(["report", *map(str, paths), "--price", "BASE=0.4", "--price", "OTHER=0.1", "-o", str(report)]) == 0
    assert report.read_text(encoding="utf-8") == text
    redacted = ["--price", "old=0.4", "--price", "new=0.1", "--redact", "-o", str(report)]
    assert app.main(["report", *map(str, paths), *redacted]) == 0, "prices follow sides whose names are hidden"
    assert "CHEAPER" in report.read_text(encoding="utf-8")
    assert run(*paths, "--details", "-o", page) == 2
    assert run(*paths[:1] * 7, "-o", page) == 2
    assert run(*paths, "--fail-on", "ambiguous", "-o", page) == 1


def test_conditions_are_parsed() -> None:
    """A bound is a fraction or a percentage; several stand in one list; repeated ones count once."""
    assert fail_on(["slower:3%,ambiguous", "slower:0.03"], "latency") == (FailOn("slower", 0.03), FailOn("ambiguous"))
    assert fail_on(["more:5%"], "memory") == (FailOn("more", 0.05),)
    with pytest.raises(UsageError, match="more:3%"):
        fail_on(["slower:3%"], "memory")


def test_a_side_is_a_list_of_files_or_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three days a side know their own variance; with one day on a side it is assumed, and that is said."""
    paths = sides(tmp_path, [session(0.1, day) for day in (1, 2, 3)], [session(0.2, day) for day in (4, 5, 6)])
    listed = [",".join(map(str, sorted(path.iterdir()))) for path in paths]
    assert run(*paths) == run(f"old={listed[0]}", f"new={listed[1]}") == 0
    directories, lists = capsys.readouterr().out.split("new compared with old")[1:]
    assert directories.split("verdict")[1] == lists.split("verdict")[1]
    assert "basis: the sessions that are compared" in lists
    assert run(paths[0], f"new={listed[1].split(',')[0]}") == 0
    assert "10 % (assumed)" in capsys.readouterr().out


def test_failed_runs_are_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be compared with processes that died."""
    paths = sides(tmp_path, [session()], [result_of(make(None, error="killed"))])
    assert run(*paths) == 2
    assert "all processes of new failed: killed" in capsys.readouterr().out


def test_the_help_names_all_that_can_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    """It is written out, because the help must not read the comparison's modules."""
    with pytest.raises(SystemExit):
        app.main(["compare", "--help"])
    words = re.findall(r"[a-z]+", capsys.readouterr().out)
    assert {str(each) for each in ALLOWABLE} <= set(words)


def test_default_names_fit_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names that run gives without -o, in a table whose verdict rests on an assumption: at most 100 columns."""
    stored = json.loads(MLP.read_text())
    paths = [tmp_path / f"2026-11-24T0{hour}1500Z.json" for hour in (3, 4)]
    for path, hour in zip(paths, (3, 4)):
        path.write_text(json.dumps({**stored, "created": f"2026-11-24T0{hour}:15:00+00:00"}))
    assert app.main(["compare", *map(str, paths), "--metric", "latency"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("11-24 03:15" in line and "11-24 04:15" in line for line in lines)
    assert any("AMBIGUOUS (assumed)" in line for line in lines)
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100


def test_a_label_names_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In report and in compare, unless NAME=PATH says otherwise, or two results have the same label."""
    stored = json.loads(MLP.read_text())
    paths = [tmp_path / f"{name}.json" for name in ("a", "b")]
    for hour, (path, label) in enumerate(zip(paths, ("with AMX", "before"))):
        path.write_text(json.dumps({**stored, "created": f"2026-11-24T0{hour}:15:00+00:00", "name": label}))
    for words, title in (
        (paths, "before compared with with AMX"),
        ((paths[0], f"new={paths[1]}"), "new compared with with AMX"),
        ((paths[0], paths[0]), "a #2 compared with a"),
    ):
        app.main(["compare", *map(str, words)])
        assert title in capsys.readouterr().out
    assert app.main(["report", str(paths[0])]) == 0
    assert f"{paths[0]}: with AMX, " in capsys.readouterr().out

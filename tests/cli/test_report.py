"""``modelzoo report``: stored results are shown, and a file that is none gives one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import load_results
import pytest
from stored_results import STORED, name, unpacked

from modelzoo.cli import app
from modelzoo.results import store

FULL = next(path for path in STORED if name(path) == "early-full")
SSDLITE = next(path for path in STORED if path.name.startswith("ssdlite"))


def for_scripts(out: str) -> list[str]:
    """The lines of stdout that scripts look for."""
    return [line for line in out.splitlines() if line.startswith(("[TARGET] ", "[VALID] "))]


@pytest.mark.parametrize("stored", STORED, ids=name)
def test_every_stored_result_is_shown(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, whatever the result says; the file and its time before it."""
    path = unpacked(stored, tmp_path)
    assert app.main(["report", "--kernels", str(path)]) == 0
    captured = capsys.readouterr()
    assert str(path) in captured.out
    assert captured.err == ""


def test_the_lines_for_scripts_are_those_of_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An early result with four workloads, judged: the lines that the call would print today."""
    assert app.main(["report", str(unpacked(FULL, tmp_path))]) == 0
    lines = for_scripts(capsys.readouterr().out)
    assert [line.split()[:2] for line in lines[:4]] == [["[VALID]", n] for n in ("resnet50", "ssd", "maskrcnn", "bert")]
    assert lines[4:6] == ["[TARGET] resnet50 Time 0.03443", "[TARGET] resnet50-bf16 Time 0.03499"]
    assert len(lines) == 12


def test_several_results_are_shown_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All lines for scripts at the end."""
    assert app.main(["report", str(SSDLITE), str(unpacked(FULL, tmp_path))]) == 0
    out = for_scripts(capsys.readouterr().out)
    assert out[0].startswith("[VALID] ssdlite")
    assert len(out) == 13


def test_details_add_what_the_table_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row's numbers and every warning, the kernels included; without them, only what matters."""
    path = str(unpacked(FULL, tmp_path))
    assert app.main(["report", path]) == 0
    short = capsys.readouterr().out.partition("[VALID]")[0]
    assert app.main(["report", path, "--details"]) == 0
    long = capsys.readouterr().out
    for words in ("first answer after the weights ", "medians of the processes: ", "kernels of ", "note: "):
        assert words in long
        assert words not in short
    assert "more: --details" in short
    assert short.partition("\n")[2].strip().partition("\nwarning: ")[0] in long, "the summary is first"
    assert long.index("Within this session:") < long.index("kernels of ")


def test_the_name_of_a_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is, so that it can be copied; control characters in it are shown, not sent to the terminal."""
    directory = tmp_path / ("long " * 40)
    directory.mkdir()
    path = directory / "a[b]\x1b[31m.json"
    path.write_bytes(SSDLITE.read_bytes())
    assert app.main(["report", str(path)]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{directory}/a[b]\\x1b[31m.json: 2026-")
    assert second == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"", "is not JSON"),
        (STORED[0].read_bytes()[:1000], "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "not a result"),
        (json.dumps({"format": "modelzoo-result/5", "new": 1}).encode(), "newer"),
        (json.dumps({"format": "modelzoo-result/4", "version": "1", "runs": "none"}).encode(), "damaged"),
        (json.dumps({"format": "modelzoo-result/2.4", "version": "1"}).encode(), "format 2, older"),
        (json.dumps({"schema": "modelzoo-result/1", "runs": [{}]}).encode(), "format 1, older"),
    ],
)
def test_a_file_that_is_no_result_is_one_line(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Truncated, older, newer and hostile files: one line on stderr, exit code 2, nothing on stdout."""
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content)
    assert app.main(["report", str(path)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_a_newer_minor_version_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its unknown fields are ignored."""
    data = json.loads(SSDLITE.read_text())
    path = tmp_path / "newer.json"
    path.write_text(json.dumps({**data, "format": "modelzoo-result/4.7", "later": {"field": [1]}}))
    assert app.main(["report", str(path)]) == 0
    assert for_scripts(capsys.readouterr().out)[0].startswith("[VALID] ssdlite")


# The page


def page(*arguments: object) -> int:
    """The exit code of ``modelzoo report``."""
    return app.main(["report", *map(str, arguments)])


def test_a_page_is_written_for_every_stored_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is said, and nothing else; torch is not needed."""
    for stored in STORED:
        target = tmp_path / f"{name(stored)}.html"
        assert page(unpacked(stored, tmp_path), "-o", target) == 0
        assert capsys.readouterr().out == f"page: {target}\n"
        assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_directory_is_printed_file_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sorted by name; of a page it is the history."""
    for stored in STORED:
        unpacked(stored, tmp_path)
    assert page(tmp_path) == 0
    assert capsys.readouterr().out.count("modelzoo 0.") >= len(STORED)
    assert page(tmp_path, "-o", tmp_path / "page.html") == 0
    assert f"History of {tmp_path.name}" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_redacted_page_has_no_paths(tmp_path: Path) -> None:
    """Neither those of the results nor those in them."""
    target = tmp_path / "page.html"
    assert page(SSDLITE, unpacked(FULL, tmp_path), tmp_path, "-o", target, "--redact") == 0
    text = target.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "~/" not in text
    assert "/home/" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--redact",), "--redact concerns the page only; name its file with -o FILE.html"),
        (("--price", "a=1"), "--price concerns the page only; name its file with -o FILE.html"),
        (("-o", "x.html", "--price", "a=1"), "--price compares costs: name 2 to 6 results"),
        (("-o", "x.html", "--details"), "a page has all details; leave out --details and --kernels"),
        (("-o", "{file}"), "{file} is one of the results; name another file with -o FILE"),
        (("-o", "{directory}/none/x.html"), "cannot write {directory}/none/x.html: there is no directory "
         "{directory}/none; create it, or name another file"),
        (("-o", "{directory}"), "-o {directory}: name a file that ends in .txt, .md, .html, .htm, .csv, .json, "
         "or give --format terminal, markdown, html, csv, json"),
        (("--format", "html"), "--format html is a page; name its file with -o FILE"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and no page."""
    names = {"file": str(unpacked(FULL, tmp_path)), "directory": str(tmp_path)}
    assert page(names["file"], *(argument.format(**names) for argument in arguments)) == 2
    captured = capsys.readouterr()
    assert captured.err == f"modelzoo: error: {message.format(**names)} (see modelzoo report --help)\n"
    assert captured.out == ""
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize("name", ["r.csv", "r.json", "r.md", "r.txt"])
def test_the_suffix_decides_the_format(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file has what --format prints on stdout; CSV and JSON have a row per workload and setting."""
    stored, target = unpacked(FULL, tmp_path), tmp_path / name
    assert page(stored, "-o", target) == 0
    form = {"csv": "csv", "json": "json", "md": "markdown", "txt": "terminal"}[target.suffix[1:]]
    assert capsys.readouterr().out == ""
    text = target.read_text(encoding="utf-8")
    if form != "terminal":  # which ends with the lines for scripts on stdout
        assert page(stored, "--format", form, "-o", "-") == 0
        assert capsys.readouterr().out == text
    if form == "csv":
        first, second, *_ = csv.DictReader(text.splitlines())
        assert (first["workload"], first["is_baseline"], second["is_baseline"]) == ("resnet50", "true", "false")
        assert float(second["speedup_low"]) < float(second["speedup_value"])
    elif form == "json":
        assert [row["workload"] for row in json.loads(text)["rows"]][::2] == ["resnet50", "ssd", "maskrcnn", "bert"]
    elif form == "markdown":
        assert "| model" in text


def test_results_without_timings_have_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result of 'validate' or 'load' has no latencies; the error names it and the formats that show it."""
    served = tmp_path / "load.json"
    store.write(load_results.result(load_results.load()), served)
    for names in ([SSDLITE], [unpacked(FULL, tmp_path), served]):
        assert page(*names, "--format", "csv") == 2
        assert capsys.readouterr().err == (
            f"modelzoo: error: --format csv has latencies, as run and tune measure them, and {names[-1]} has none; "
            "give --format terminal, markdown or html (see modelzoo report --help)\n"
        )

"""``modelzoo report``: stored results are shown, as they were printed, as a page, or as rows."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import load_results
import pytest
from calls import called
from stored_results import STORED, name, unpacked

from modelzoo.results import store

FULL = next(path for path in STORED if name(path) == "early-full")
SSDLITE = next(path for path in STORED if path.name.startswith("ssdlite"))


@pytest.mark.parametrize("stored", STORED, ids=name)
def test_every_stored_result_is_shown(stored: Path, tmp_path: Path) -> None:
    """As text and as a page; compared with itself, an early result may be refused, for it has no digest of inputs."""
    path, page = unpacked(stored, tmp_path), tmp_path / "page.html"
    code, out, err = called("report", "--kernels", path)
    assert (code, err) == (0, "")
    assert str(path) in out
    assert called("report", path, "-o", page) == (0, f"page: {page}\n", "")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    code, _, err = called("compare", path, path)
    assert code == 0 or (code == 2 and err.count("\n") == 1)


def test_the_lines_for_scripts_are_those_of_the_call(tmp_path: Path) -> None:
    """An early result, judged: the lines that the call would print today, of all files at the end.

    With --details, the kernels stand between the summary and them.
    """
    short, *lines = called("report", SSDLITE, unpacked(FULL, tmp_path)).out.split("\n[")
    names = ("ssdlite", "resnet50", "ssd", "maskrcnn", "bert")
    assert [line.split()[:2] for line in lines[:5]] == [["VALID]", name] for name in names]
    assert lines[5:7] == ["TARGET] resnet50 Time 0.03443", "TARGET] resnet50-bf16 Time 0.03499"]
    assert len(lines) == 13
    assert "more: --details" in short and "kernels of " not in short
    long = called("report", tmp_path / "early-full.json", "--details").out
    assert long.index("Within this session:") < long.index("kernels of ") < long.index("\n[VALID]")


def test_the_name_of_a_file_is_one_line(tmp_path: Path) -> None:
    """However long it is, so that it can be copied; control characters in it are shown, not sent to the terminal."""
    path = tmp_path / ("long " * 30 + "a[b]\x1b[31m.json")
    path.write_bytes(SSDLITE.read_bytes())
    first, second, *_ = called("report", path).out.splitlines()
    assert first.startswith(f"{tmp_path}/{'long ' * 30}a[b]\\x1b[31m.json: 2026-")
    assert second == ""


def test_a_directory_is_printed_file_by_file(tmp_path: Path) -> None:
    """Of a page it is the history."""
    for stored in STORED:
        unpacked(stored, tmp_path)
    assert called("report", tmp_path).out.count("modelzoo 0.") >= len(STORED)
    assert called("report", tmp_path, "-o", tmp_path / "page.html").code == 0
    assert f"History of {tmp_path.name}" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_redacted_page_has_no_paths(tmp_path: Path) -> None:
    """Neither those of the results nor those in them."""
    page = tmp_path / "page.html"
    assert called("report", SSDLITE, unpacked(FULL, tmp_path), tmp_path, "-o", page, "--redact").code == 0
    text = page.read_text(encoding="utf-8")
    assert not any(words in text for words in (str(tmp_path), "~/", "/home/"))


def test_no_result_is_replaced_by_its_page(tmp_path: Path) -> None:
    """The name was mistyped."""
    path = unpacked(FULL, tmp_path)
    before = path.read_bytes()
    code, _, err = called("report", path, "-o", path)
    assert code == 2
    assert f"{path} is one of the results; name another file with -o FILE" in err
    assert path.read_bytes() == before


@pytest.mark.parametrize(("suffix", "form"), [("csv", "csv"), ("json", "json"), ("md", "markdown"), ("txt", None)])
def test_the_suffix_decides_the_format(suffix: str, form: str | None, tmp_path: Path) -> None:
    """A file has what --format prints on stdout, which for terminals ends with the lines for scripts."""
    stored, target = unpacked(FULL, tmp_path), tmp_path / f"r.{suffix}"
    assert called("report", stored, "-o", target) == (0, "", "")
    text = target.read_text(encoding="utf-8")
    if form is not None:
        assert called("report", stored, "--format", form, "-o", "-") == (0, text, "")
    if form == "csv":
        first, second, *_ = csv.DictReader(text.splitlines())
        assert (first["workload"], first["is_baseline"], second["is_baseline"]) == ("resnet50", "true", "false")
        assert float(second["speedup_low"]) < float(second["speedup_value"])
    elif form == "json":
        assert [row["workload"] for row in json.loads(text)["rows"]][::2] == ["resnet50", "ssd", "maskrcnn", "bert"]


def test_results_without_timings_have_no_rows(tmp_path: Path) -> None:
    """A result of 'validate' or 'load' has no latencies; the error names it and the formats that show it."""
    served = tmp_path / "load.json"
    store.write(load_results.result(load_results.load()), served)
    for names in ([SSDLITE], [unpacked(FULL, tmp_path), served]):
        code, _, err = called("report", *names, "--format", "csv")
        assert code == 2
        assert err == (
            f"modelzoo: error: --format csv has latencies, as run and tune measure them, and {names[-1]} has none; "
            "give --format terminal, markdown or html (see modelzoo report --help)\n"
        )


@pytest.mark.parametrize("stored", STORED, ids=name)
def test_paths_are_made_up_or_masked(stored: Path, tmp_path: Path) -> None:
    """Absolute paths begin in made-up directories, and no home directory but the made-up one appears."""
    text = re.sub(r'"jpeg":"[^"]*"', "", unpacked(stored, tmp_path).read_text())
    paths = set(re.findall(r"(?<![\w.~:/)-])/(?:[\w.-]+/)+[\w.-]+", text))
    made_up = ("/data/", "/home/user/", "/home/USER/", "/tmp/torchinductor_USER")
    assert [path for path in sorted(paths) if not (path + "/").startswith(made_up)] == []

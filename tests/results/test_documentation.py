"""docs/results.md describes every stored field, with an example and commands that work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from places import DATA, ROOT

from modelzoo.results import schema

PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
STORED = DATA / "results" / "mlp.json"
SESSION = DATA / "results" / "sessions.json"


def block(language: str) -> str:
    """The only block of code in ``language``."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_tables_of_fields_are_current() -> None:
    """If this fails, replace them with the output of ``python -m modelzoo.results.schema``."""
    assert PAGE.endswith(schema.field_tables())


def test_links_to_records_lead_to_their_tables() -> None:
    """Each anchor is the heading of a table."""
    anchors = set(re.findall(r"\]\(#(\w+)\)", PAGE))
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)}
    assert anchors <= headings
    assert len(headings) > 40


@pytest.mark.parametrize(("language", "stored"), [("jsonc", STORED), ("json", SESSION)], ids=["2.0", "2.1"])
def test_the_examples_are_parts_of_the_stored_results(language: str, stored: Path) -> None:
    """Without its omissions, every name and value of the example is in the file, in the same order."""
    text = json.dumps(json.loads(stored.read_text()), ensure_ascii=False)
    position = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*|true|false|null', block(language)):
        position = text.find(token, position)
        assert position >= 0, f"{token} is not in {stored.name}"


def test_the_python_example_prints_one_line_per_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on the page, in a directory that has the result."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    shutil.copy(STORED, "results/mlp.json")
    exec(block("python"), {})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["mlp", "fp32"],
        ["mlp", "bf16=autocast"],
    ]


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
def test_the_jq_example_prints_one_line_per_run(tmp_path: Path) -> None:
    """The median of each run's samples, among its other cells."""
    (tmp_path / "results").mkdir()
    shutil.copy(STORED, tmp_path / "results" / "mlp.json")
    printed = subprocess.run(["sh", "-c", block("sh")], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    runs = json.loads(STORED.read_text())["runs"]
    assert len(rows) == len(runs)
    for row, run in zip(rows, runs):
        samples = sorted(run["report"]["timing"]["series"][0]["values"])
        assert row[:3] == ["mlp", str(run["group"]), str(run["round"])]
        assert float(row[3]) == samples[len(samples) // 2]
        assert row[4] == run["report"]["observed"]["evidence"]["verdict"]

"""docs/results.md describes what is stored, with an example and commands that work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from places import DATA, ROOT

PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
STORED = DATA / "results" / "mlp.json"


def block(language: str) -> str:
    """The only block of code in ``language``."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_example_is_a_part_of_the_stored_result() -> None:
    """Without its omissions, every name and value of the example is in the file, in the same order."""
    text = json.dumps(json.loads(STORED.read_text()), ensure_ascii=False)
    position = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|-?\d[\d.e+-]*|true|false|null', block("jsonc")):
        position = text.find(token, position)
        assert position >= 0, f"{token} is not in {STORED.name}"


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
    for row, run in zip(rows, runs, strict=True):
        samples, verdict = sorted(run["report"]["timing"]["series"][0]["values"]), run["report"]["observed"]["evidence"]
        assert row[:3] == ["mlp", str(run["group"]), str(run["round"])]
        assert (float(row[3]), row[4]) == (samples[len(samples) // 2], verdict["verdict"])

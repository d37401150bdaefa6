"""The program that compares what two checkouts show finds a changed word, unless it is intended."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

import equal_output
import pytest
from places import ROOT

CONVERT = "import shutil, sys; shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)"


def test_a_changed_word_is_found_once_unless_it_is_intended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All four cases that show the sentence are one difference; what does not show it is equal."""
    copy, converter, keep = tmp_path / "copy", tmp_path / "convert.py", tmp_path / "keep"
    shutil.copytree(ROOT / "modelzoo", copy / "modelzoo", ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / "modelzoo/views/run.py"
    text = module.read_text(encoding="utf-8")
    assert text.count("Within this session") == 1
    module.write_text(text.replace("Within this session", "Inside this session"), encoding="utf-8")
    converter.write_text(CONVERT, encoding="utf-8")
    words = [str(ROOT), str(copy), "--generated", "2", "--keep", str(keep), "--convert", str(converter)]
    assert equal_output.main([*words, "--only", "modelzoo report results/run-0000?.json*--[dk]e*s"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("9 cases: 5 equal, 4 different; 0 tracebacks in OLD\n\n==== 4 cases, such as\n")
    assert "\n-Within this session:\n+Inside this session:\n" in shown
    assert shown == (keep / "differences.txt").read_text(encoding="utf-8")
    rules = tmp_path / "intended.txt"
    rules.write_text("# One word.\n^Within (this session:)$ => Inside \\1\n", encoding="utf-8")
    report, is_equal = equal_output.compare(Namespace(intended=rules, without_drawings=False), keep)
    assert is_equal
    assert report == (
        "9 cases: 9 equal, 0 different; 0 tracebacks in OLD\n"
        "intended, in 4 cases: ^Within (this session:)$ => Inside \\1\n"
    )

"""``modelzoo report``: stored results of both formats are shown, and a file that is none gives one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stored_results import FORMAT_1, FORMAT_2, name, unpacked

from modelzoo.cli import app

FULL = next(path for path in FORMAT_1 if path.name.startswith("full"))
SSDLITE = next(path for path in FORMAT_2 if path.name.startswith("ssdlite"))


@pytest.mark.parametrize("stored", [*FORMAT_1, *FORMAT_2], ids=name)
def test_every_stored_result_is_shown(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, whatever the result says; the file and its time on stderr."""
    path = unpacked(stored, tmp_path)
    assert app.main(["report", "--kernels", str(path)]) == 0
    captured = capsys.readouterr()
    assert str(path) in captured.err
    assert all(line.startswith(("[TARGET] ", "[VALID] ")) for line in captured.out.splitlines())


def test_the_lines_for_scripts_are_those_of_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result of format 1 with four workloads, judged: the lines that the call would print today."""
    assert app.main(["report", str(unpacked(FULL, tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [["[VALID]", n] for n in ("resnet50", "ssd", "maskrcnn", "bert")]
    assert lines[4:6] == ["[TARGET] resnet50 Time 0.03443", "[TARGET] resnet50-bf16 Time 0.03499"]
    assert len(lines) == 12


def test_several_results_are_shown_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All lines for scripts at the end."""
    assert app.main(["report", str(SSDLITE), str(unpacked(FULL, tmp_path))]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("[VALID] ssdlite")
    assert len(out) == 13


def test_details_add_what_the_table_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row's numbers and every warning, the kernels included; without them, only what matters."""
    path = str(unpacked(FULL, tmp_path))
    assert app.main(["report", path]) == 0
    short = capsys.readouterr().err
    assert app.main(["report", path, "--details"]) == 0
    long = capsys.readouterr().err
    for words in ("first call ", "medians of the processes: ", "kernels of ", "note: "):
        assert words in long
        assert words not in short
    assert short.partition("\n")[2].strip() in long


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"", "is not JSON"),
        (FORMAT_2[0].read_bytes()[:1000], "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "not a result"),
        (json.dumps({"format": "modelzoo-result/3", "new": 1}).encode(), "newer"),
        (json.dumps({"format": "modelzoo-result/2", "version": "1", "runs": "none"}).encode(), "damaged"),
        (json.dumps({"schema": "modelzoo-result/1", "runs": [{}]}).encode(), "damaged"),
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
    path.write_text(json.dumps({**data, "format": "modelzoo-result/2.7", "later": {"field": [1]}}))
    assert app.main(["report", str(path)]) == 0
    assert capsys.readouterr().out.startswith("[VALID] ssdlite")


def test_torch_is_not_imported() -> None:
    """Showing results works where nothing is measured."""
    code = (
        "import sys; from modelzoo.cli import main; code = main(['report', sys.argv[1]]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SSDLITE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

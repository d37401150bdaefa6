"""The files beside a search's result."""

from __future__ import annotations

from pathlib import Path

from stored_search import searched

from modelzoo.frozen import replace
from modelzoo.views import tuning


def test_the_winner_is_written_as_a_setting_and_as_python(tmp_path: Path) -> None:
    """Both say how fast it is; the lines say how to use them."""
    lines = tuning.write_files(searched(), tmp_path / "r.json", "toy", "trace")
    setting, code = (tmp_path / "r.setting").read_text(), (tmp_path / "r.py").read_text()
    assert setting.startswith("# toy: 2.51 times (")
    assert "mode=compile" in setting
    assert "torch.compile(model)" in code
    assert lines[0].startswith("command line: modelzoo run toy --setting 'precision=fp32 engine=torch mode=compile")
    assert lines[1] == f"settings file: {tmp_path / 'r.setting'}, for --setting @{tmp_path / 'r.setting'}"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """It says which; the command line says what the file would."""
    (tmp_path / "r.setting").mkdir()
    command, problem = tuning.write_files(searched(), tmp_path / "r.json", "toy", "trace")
    assert command.startswith("command line: modelzoo run toy --setting ")
    assert problem.startswith(f"no settings file: cannot write {tmp_path / 'r.setting'} or ")


def test_a_search_that_measured_nothing_recommends_nothing(tmp_path: Path) -> None:
    """There is no process to repeat."""

    assert tuning.write_files(replace(searched(), runs=()), tmp_path / "r.json", "toy", "trace") == []

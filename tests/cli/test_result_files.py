"""Files and directories of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.cli.input_files import read_all, result_files, short_names
from modelzoo.errors import InputError


def test_a_directory_stands_for_the_json_files_in_it(tmp_path: Path) -> None:
    """Sorted by name; hidden files, other files and directories are left out."""
    for name in ("b.json", "a.json", "c.svg", ".d.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "e.json").mkdir()
    assert result_files(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json"]
    assert result_files(tmp_path / "c.svg") == [tmp_path / "c.svg"]


def test_a_directory_without_results_is_one_line(tmp_path: Path) -> None:
    """So is a file that is none."""
    with pytest.raises(InputError, match=r"contains no results \(\*\.json\)"):
        result_files(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InputError, match="is not a result of modelzoo"):
        read_all([str(tmp_path)])


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/r/a.json"], ["a"]),
        (["/r/a.json", "/r/b.json"], ["a", "b"]),
        (["/r/x/s1.json", "/r/y/s1.json"], ["x/s1", "y/s1"]),
        (["/r/a.json", "/r/a.json", "/r"], ["a", "a #2", "r"]),
        (["/"], ["/"]),
    ],
)
def test_names_are_as_short_as_they_can_be(paths: list[str], names: list[str]) -> None:
    """The end of each path that tells it from the others."""
    assert short_names([Path(path) for path in paths]) == names

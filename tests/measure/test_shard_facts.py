"""What shards depend on besides their items."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.files import files_sha256
from modelzoo.measure import judgement
from modelzoo.measure.judgement import JUDGING


def test_the_packages_that_decide_what_a_shard_holds_exist() -> None:
    """One that is renamed must not drop out of the checksum."""
    suite = Path(judgement.__file__).parent.parent
    assert all((suite / name / "__init__.py").is_file() for name in JUDGING)


@pytest.mark.parametrize("change", ["name", "content", "number"])
def test_names_contents_and_number_of_files_all_count(tmp_path: Path, change: str) -> None:
    """Where the directory is does not."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("1")
        (tmp_path / name / "z.py").write_text("1")
    first, second = tmp_path / "one", tmp_path / "two"
    assert files_sha256(first, first.glob("*.py")) == files_sha256(second, second.glob("*.py"))
    if change == "name":
        (second / "a.py").rename(second / "b.py")
    elif change == "content":
        (second / "a.py").write_text("2")
    else:
        (second / "b.py").write_text("1")
    assert files_sha256(first, first.glob("*.py")) != files_sha256(second, second.glob("*.py"))

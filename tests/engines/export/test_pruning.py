"""The cache of exports keeps below its size."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from modelzoo.engines.export import store
from modelzoo.engines.export.store import PROTECTED_SECONDS, mark_used, prune

STAMP = "manifest.json"


def export(folder: Path, name: str, days: float, size: int = 100) -> Path:
    """An export of ``size`` bytes that was last used ``days`` ago."""
    path = folder / name
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "model.bin").write_bytes(b"x" * size)
    (path / STAMP).touch()
    used = time.time() - days * 86400
    for each in (path / STAMP, path):
        os.utime(each, (used, used))
    return path


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """And no more than is needed."""
    old, older, new = export(tmp_path, "old", 5), export(tmp_path, "older", 9), export(tmp_path, "new", 2)
    assert prune(tmp_path, STAMP, 300) == []
    assert prune(tmp_path, STAMP, 250) == [older]
    assert sorted(tmp_path.iterdir()) == [new, old]
    mark_used(old / STAMP)
    assert prune(tmp_path, STAMP, 100) == [new]


def test_what_may_be_in_use_stays_whatever_the_size(tmp_path: Path) -> None:
    """Used within a day; also an export that another process is writing."""
    export(tmp_path, "used", 0.9 * PROTECTED_SECONDS / 86400)
    writing = tmp_path / ".toy-0123.tmp"
    writing.mkdir()
    (writing / "model.bin").write_bytes(b"x" * 100)
    assert prune(tmp_path, STAMP, 0) == []


def test_what_a_process_left_when_it_was_killed_goes_too(tmp_path: Path) -> None:
    """A temporary directory of long ago, which has no stamp."""
    left = export(tmp_path, ".toy-0123.tmp", 3)
    (left / STAMP).unlink()
    past = time.time() - 3 * 86400
    os.utime(left, (past, past))
    assert prune(tmp_path, STAMP, 0) == [left]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has removed it meanwhile, say; the next one goes."""
    gone, old = export(tmp_path, "gone", 9), export(tmp_path, "old", 5)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self == gone:
            raise FileNotFoundError(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    assert prune(tmp_path, STAMP, 100) == [old]


def test_the_limit_is_what_the_documentation_says() -> None:
    """In docs/engines.md."""
    assert store.LIMIT == 16 * 2**30

"""The cache of exports keeps below its size."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from modelzoo.engines.export import store
from modelzoo.engines.export.store import MANIFEST, PROTECTED_SECONDS, prune


def export(folder: Path, name: str, days: float, size: int = 100) -> Path:
    """An export of ``size`` bytes that was last used ``days`` ago."""
    path = folder / name
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "model.bin").write_bytes(b"x" * size)
    (path / MANIFEST).touch()
    used = time.time() - days * 86400
    for each in (path / MANIFEST, path):
        os.utime(each, (used, used))
    return path


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """And no more than is needed."""
    old, new = export(tmp_path, "old", 5), export(tmp_path, "new", 2)
    export(tmp_path, "older", 9)
    prune(tmp_path, 300)
    assert len(list(tmp_path.iterdir())) == 3
    prune(tmp_path, 250)
    assert sorted(tmp_path.iterdir()) == [new, old]
    os.utime(old / MANIFEST)
    prune(tmp_path, 100)
    assert list(tmp_path.iterdir()) == [old]


def test_what_may_be_in_use_stays_whatever_the_size(tmp_path: Path) -> None:
    """Used within a day; also an export that another process is writing."""
    export(tmp_path, "used", 0.9 * PROTECTED_SECONDS / 86400)
    writing = tmp_path / ".toy-0123.tmp"
    writing.mkdir()
    (writing / "model.bin").write_bytes(b"x" * 100)
    prune(tmp_path, 0)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_process_left_when_it_was_killed_goes_too(tmp_path: Path) -> None:
    """A temporary directory of long ago, which has no manifest."""
    left = export(tmp_path, ".toy-0123.tmp", 3)
    (left / MANIFEST).unlink()
    past = time.time() - 3 * 86400
    os.utime(left, (past, past))
    prune(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as no export then, and the next one goes."""
    stuck, _ = export(tmp_path, "stuck", 9), export(tmp_path, "old", 5)
    remove = shutil.rmtree

    def fails(path: Path) -> None:
        if path == stuck:
            raise PermissionError(path)
        remove(path)

    monkeypatch.setattr(store.shutil, "rmtree", fails)
    prune(tmp_path, 100)
    assert list(tmp_path.iterdir()) == [stuck]
    assert not (stuck / MANIFEST).exists()

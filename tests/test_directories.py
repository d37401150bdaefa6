"""Where the suite keeps what it can make again."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from modelzoo.directories import cache_directory, make_own, own_temporary_directory
from modelzoo.errors import EnvironmentProblem


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have their own cache directories")
def test_the_first_setting_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MODELZOO_CACHE comes before XDG_CACHE_HOME, and that before the home directory."""
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.setenv("MODELZOO_CACHE", "")
    assert cache_directory() == Path("/xdg/modelzoo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/home/someone/.cache/modelzoo")


def test_a_temporary_cache_is_made_for_this_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its name can be predicted; the second call finds it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        found = own_temporary_directory()
        assert found == tmp_path / f"modelzoo-{os.getuid()}"
        assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("planted", ["link", "file", "open", "open to its group", "another user's"])
def test_a_directory_that_others_can_write_to_is_refused(
    planted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever was first at a name that can be predicted decides nothing."""
    path = tmp_path / "planted"
    if planted == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "target")
    elif planted == "file":
        path.write_text("")
    else:
        path.mkdir()
        path.chmod({"open": 0o757, "open to its group": 0o775}.get(planted, 0o755))
    if planted == "another user's":
        monkeypatch.setattr("os.getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(EnvironmentProblem) as caught:
        make_own(path, "MODELZOO_CACHE")
    assert str(caught.value) == (
        f"{path} is not a directory that only you can write to, so others may have put files there; remove it, or set "
        "MODELZOO_CACHE to a directory of your own"
    )
    if planted == "open to its group":  # as those that other programs make are
        make_own(path, "MODELZOO_CACHE", with_group=True)


def test_a_directory_that_everyone_can_replace_is_refused(tmp_path: Path) -> None:
    """It may be this user's now, and another's at the next access."""
    path = tmp_path / "open" / "own"
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    make_own(path, "MODELZOO_CACHE")
    path.parent.chmod(0o777)
    with pytest.raises(EnvironmentProblem) as caught:
        make_own(path, "MODELZOO_CACHE")
    assert str(caught.value) == (
        f"everyone can replace {path}, because {path.parent} has no sticky bit; run 'chmod +t {path.parent}', or set "
        "MODELZOO_CACHE to a directory of your own"
    )

"""Where the suite keeps what it can make again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelzoo.machine.directories import cache_directory


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


def test_without_a_home_directory_it_is_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container under an unknown user id gets a usable place, not a directory named ``~``."""
    monkeypatch.delenv("MODELZOO_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/modelzoo"))
    assert cache_directory().is_absolute()

"""Files are written whole or not at all, and where others cannot write."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.files import (
    cache_directory,
    make_own,
    own_temporary_directory,
    private_path,
    replace_atomically,
    write_atomically,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("content", ["gr\u00fc\u00df\n", b"\x00\xff"])
def test_text_and_bytes_are_written(tmp_path: Path, content: str | bytes) -> None:
    """And nothing else is left in the directory."""
    path = tmp_path / "file"
    path.write_text("old")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_umask_gives_the_permissions(tmp_path: Path, umask: int, mode: int) -> None:
    """Other users can read the file if the umask lets them."""
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As a device is: root could replace ``/dev/null``."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_atomically(path, "x")
        assert os.read(reader, 10) == b"x"
        assert path.is_fifo()
    finally:
        os.close(reader)


def test_a_failure_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary file is left: of a full disk, of an interrupted block, or beside a directory of the name."""
    path = tmp_path / "file"
    path.write_text("old")

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt), replace_atomically(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fsync", fails)
        write_atomically(path, "new")
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "directory", "text")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["directory", "file"]


JOE = {"HOME": "/home/joe", "USER": "joe"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/home/joe/weights/bert.pth", "~/weights/bert.pth"),
        ("/home/joe", "~"),
        ("/home/joe2/x", "/home/USER/x"),
        ("/data/home/ann/x and /Users/ann/y", "/data/home/USER/x and /Users/USER/y"),
        ("C:\\Users\\ann\\x", "C:\\Users\\USER\\x"),
        ("/scratch/joe/run.json", "/scratch/USER/run.json"),
        ("/tmp/pytest-of-joe/a:/tmp/torchinductor_joe", "/tmp/pytest-of-USER/a:/tmp/torchinductor_USER"),
        ("cannot read /home/joe.", "cannot read ~."),
        ("('/home/joe/x', \"/home/joe/y\")", "('~/x', \"~/y\")"),
        ("LD_PRELOAD=/home/joe/lib/libtcmalloc.so", "LD_PRELOAD=~/lib/libtcmalloc.so"),
        ("joe is fast, 3 / 4", "joe is fast, 3 / 4"),
        ("/work/data/joey/x.joe-2", "/work/data/joey/x.joe-2"),
        ("resnet50", "resnet50"),
    ],
)
def test_private_parts_of_paths_are_masked(text: str, masked: str) -> None:
    """Home directories and user names disappear from paths, and nothing else changes."""
    assert private_path(text, JOE) == masked
    assert private_path(masked, JOE) == masked


def test_an_unusual_home_directory_is_masked() -> None:
    """The home directory may be anywhere; root's name is not private."""
    masked = private_path("/root/x /rootfs/root/y /mnt/root/z", {"HOME": "/root", "USER": "root"})
    assert masked == "~/x /rootfs/root/y /mnt/root/z"
    assert private_path("/nfs/staff/joe/x", {"HOME": "/nfs/staff/joe"}) == "~/x"
    assert private_path("/home/Jo Doe/x", {"HOME": "/home/Jo Doe"}) == "~/x"
    assert private_path("/x/y", {"HOME": "/"}) == "/x/y"


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

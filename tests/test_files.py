"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from modelzoo.files import private_path, replace_atomically, write_atomically


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("content", ["gr\u00fc\u00df\n", b"\x00\xff"])
def test_text_and_bytes_are_written(tmp_path: Path, content: str | bytes) -> None:
    """Text is stored as UTF-8, bytes as they are, and nothing else is left in the directory."""
    path = tmp_path / "file"
    path.write_text("old")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
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
    """A full disk raises OSError, the old content stays, and no temporary file is left."""
    path = tmp_path / "file"
    path.write_text("old")

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    """Writing to the path of a directory fails without a trace."""
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "directory", "text")
    assert names(tmp_path) == ["directory"]


def test_a_library_may_write_the_temporary_file(tmp_path: Path) -> None:
    """What the block wrote becomes the file; an interrupted block changes nothing."""
    with replace_atomically(tmp_path / "file") as temporary:
        temporary.write_text("by a library")
    with pytest.raises(KeyboardInterrupt), replace_atomically(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "file").read_text() == "by a library"
    assert names(tmp_path) == ["file"]


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
    assert private_path("/root/x /rootfs/root/y /mnt/root/z", {"HOME": "/root", "USER": "root"}) == (
        "~/x /rootfs/root/y /mnt/root/z"
    )
    assert private_path("/nfs/staff/joe/x", {"HOME": "/nfs/staff/joe"}) == "~/x"
    assert private_path("/home/Jo Doe/x", {"HOME": "/home/Jo Doe"}) == "~/x"
    assert private_path("/x/y", {"HOME": "/"}) == "/x/y"

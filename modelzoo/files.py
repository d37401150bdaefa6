"""Files that are written whole or not at all, their checksums, and paths without private names.

And the directories in which the suite keeps what it can make again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from modelzoo.errors import EnvironmentProblem

NAME_LENGTH = 100
"""Most characters of a name that is a part of a file's name; file systems allow 255 bytes in all."""


def name_in_file(name: str) -> str:
    """Return ``name`` as a part of a file's name: without separators, and with a checksum in place of a long end."""
    plain = re.sub(r"[^\w.-]", "_", name)
    if len(plain) <= NAME_LENGTH:
        return plain
    import hashlib  # loads OpenSSL, which what only writes does not need

    return f"{plain[:NAME_LENGTH]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace ``path`` by a file that holds ``content``; text is written as UTF-8.

    A reader sees the old file or the new one, never a part of it. The new file has the permissions that the umask
    gives. A device or a pipe, such as ``/dev/null``, is written to instead.

    Raises:
        OSError: the file cannot be written. The old file is then unchanged.
    """
    if path.is_char_device() or path.is_fifo():
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    with replace_atomically(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file in the directory of ``path``, which replaces ``path`` when the block ends.

    For libraries that write to a path of their own accord. If the block fails, the temporary file is removed and
    ``path`` stays as it was.

    Raises:
        OSError: the directory cannot be written to, or ``path`` is a directory.
    """
    temporary = path.parent / f".modelzoo-{os.urandom(8).hex()}.tmp"
    # Unlike mkstemp, which gives 0600, this leaves the permissions to the umask.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def sync(path: Path) -> None:
    """Wait until the disk holds what is in a file, or which files are in a directory.

    Raises:
        OSError: it cannot be opened, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 22), b""):
            digest.update(block)
    return digest.hexdigest()


def files_sha256(directory: Path, files: Iterable[Path]) -> str:
    """Return the SHA-256 of the names, below ``directory``, and the contents of files; of one, that of its content."""
    import hashlib

    whole, several = hashlib.sha256(), sorted(files)
    if len(several) == 1:
        return file_sha256(several[0])
    for path in several:
        whole.update(f"{path.relative_to(directory)} {file_sha256(path)}\n".encode())
    return whole.hexdigest()


_OTHER_HOME = re.compile(r"(?<=/)(home|Users)/[^/\s:;,'\"()\[\]]+|(?<=\\)Users\\[^\\\s:;,'\"()\[\]]+")
_TOKEN = re.compile(r"[^\s'\"]+")


def private_path(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return ``text`` with the private part of every path in it masked.

    The home directory becomes ``~``, and the user's name elsewhere in a path becomes ``USER``, as does the name in
    other users' home directories. What is not part of a path stays. Masking twice changes nothing more.

    Args:
        text: a path, or any text that may contain paths.
        environ: the variables that give the home directory and the user's name.
    """
    home = (environ.get("HOME") or os.path.expanduser("~")).rstrip("/")  # noqa: PTH111 - Path.home() may raise
    if home.startswith("/"):
        text = re.sub(rf"(?<![\w.~-]){re.escape(home)}(?![\w-]|\.\w)", "~", text)
    names = {environ.get("USER", ""), environ.get("LOGNAME", ""), os.path.basename(home)}  # noqa: PTH119
    names -= {"", "root", "~"}
    return _TOKEN.sub(lambda token: _mask_names(token.group(), names), text)


def _mask_names(token: str, names: set[str]) -> str:
    if "/" not in token and "\\" not in token:
        return token
    token = _OTHER_HOME.sub(lambda match: re.sub(r"[^/\\]+$", "USER", match.group()), token)
    # Temporary directories end in the name: pytest-of-joe, torchinductor_joe.
    for name in names:
        token = re.sub(rf"(?<=[/\\_-]){re.escape(name)}(?![\w-]|\.\w)", "USER", token)
    return token


def cache_directory() -> Path:
    """Return ``$MODELZOO_CACHE``, or else the user's cache directory for ``modelzoo``; neither need exist.

    On Linux the latter is ``$XDG_CACHE_HOME/modelzoo``, by default ``~/.cache/modelzoo``.
    """
    import platformdirs  # MODELZOO_CACHE and --help do without it

    configured = os.environ.get("MODELZOO_CACHE")
    return Path(configured) if configured else platformdirs.user_cache_path("modelzoo", appauthor=False)


def own_temporary_directory() -> Path:
    """Return a directory of this user's below the one for temporary files; it exists.

    Raises:
        EnvironmentProblem: another user can write to it; its name can be predicted.
        OSError: it cannot be made.
    """
    import tempfile

    path = Path(tempfile.gettempdir()) / f"modelzoo-{os.getuid()}"
    make_own(path, "MODELZOO_CACHE")
    return path


def make_own(path: Path, variable: str, *, with_group: bool = False) -> None:
    """Make the directory ``path`` for this user alone, or check that nobody else owns it or may write to it.

    For names that can be predicted, below a directory that everyone may write to: whoever is first there would decide
    what is read from it, even what is executed.

    Args:
        path: the directory.
        variable: name of the environment variable that selects another one, for the message.
        with_group: whether its group may write to it. A program that makes it with the umask of a user with a group of
            his own does that.

    Raises:
        EnvironmentProblem: it is a link, no directory, or another user's, or others may write to it or replace it.
        OSError: it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
    found, above = path.lstat(), path.parent.stat().st_mode
    others = stat.S_IWOTH if with_group else stat.S_IWOTH | stat.S_IWGRP
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & others:
        raise EnvironmentProblem(
            f"{path} is not a directory that only you can write to, so others may have put files there; remove it, or "
            f"set {variable} to a directory of your own"
        )
    if above & stat.S_IWOTH and not above & stat.S_ISVTX:
        raise EnvironmentProblem(
            f"everyone can replace {path}, because {path.parent} has no sticky bit; run 'chmod +t {path.parent}', or "
            f"set {variable} to a directory of your own"
        )

"""Where the suite keeps what it can make again."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from modelzoo.errors import EnvironmentProblem


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

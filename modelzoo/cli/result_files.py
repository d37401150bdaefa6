"""Names of files and directories on the command line, as the results that they hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.errors import InputError

if TYPE_CHECKING:
    from modelzoo.records.run import Result


def result_files(path: Path) -> list[Path]:
    """Return the files that ``path`` stands for: itself, or the JSON files directly in it, sorted by name.

    Raises:
        InputError: it is a directory that cannot be read, or has no such files.
    """
    try:
        if not path.is_dir():
            return [path]
        found = sorted(each for each in path.iterdir() if each.match("[!.]*.json") and each.is_file())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not found:
        raise InputError(f"{path} contains no results (*.json)")
    return found


def read_all(paths: list[str]) -> list[tuple[str, Result]]:
    """Read every file that ``paths`` stand for, before anything is done with one of them.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
    """
    from modelzoo.results import store

    return [(path_text(file), store.read(file)) for path in paths for file in result_files(Path(path))]


def short_names(paths: Sequence[Path], given: Sequence[str] = ()) -> list[str]:
    """Return a name for each path: as much of its end as tells it from the others, without ``.json``.

    If a path occurs several times, its names are numbered.

    Args:
        paths: the paths.
        given: the name that was given to each of them, empty if there is none; by default none has one.
    """
    full = [Path(os.path.normpath(path.absolute())) for path in paths]
    own = given or [""] * len(full)
    for count in range(1, max(len(path.parts) for path in full) + 1):
        found = [name or _end(path, count) for name, path in zip(own, full)]
        if len(set(found)) == len(found):
            return found
    found = [name or _end(path, 1) for name, path in zip(own, full)]
    return [name if name not in found[:i] else f"{name} #{found[:i].count(name) + 1}" for i, name in enumerate(found)]


def path_text(path: Path) -> str:
    """Return the path as text; bytes that are not UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def _end(path: Path, count: int) -> str:
    """The last ``count`` parts of a path, without the ending ``.json``."""
    shown = path.with_suffix("") if path.suffix == ".json" else path
    return path_text(Path(*shown.parts[-count:]))

"""Files that are written whole or not at all, and paths without private names."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Union


def write_atomically(path: Path, content: Union[str, bytes]) -> None:
    """Replace ``path`` by a file that holds ``content``; text is written as UTF-8.

    A reader sees the old file or the new one, never a part of it. The new file has the permissions that the umask
    gives.

    Raises:
        OSError: the file cannot be written. The old file is then unchanged.
    """
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
    temporary = path.parent / f".modelzoo-{secrets.token_hex(8)}.tmp"
    # Unlike mkstemp, which gives 0600, this leaves the permissions to the umask.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise

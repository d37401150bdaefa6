"""What every process of the suite begins with."""

from __future__ import annotations

import errno
import getpass
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from modelzoo.directories import own_temporary_directory
from modelzoo.machine.linux import allowed_cpus


class _Stderr(io.TextIOWrapper):
    """What is for people is lost, and nothing else, if the disk that stderr is written to is full."""

    def write(self, text: str) -> int:
        with _unless_full():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_full():
            super().flush()


@contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def begin() -> None:
    """Do what every process of the suite does first, before any library is loaded.

    The CPUs of this thread are noted; stdout and stderr take every text, whatever their encoding lacks; and a user id
    without an entry in passwd, as containers may have, gets the name that torch asks for (``default_cache_dir`` in
    ``torch/_inductor/runtime/cache_dir_utils.py``) and a home directory, which torch's and Hugging Face's caches need.

    Raises:
        EnvironmentProblem: another user can write to that home directory.
    """
    allowed_cpus()
    # A stream that was closed before the start is None, and print would send errors to stdout.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    first = sys.__stderr__
    if first is not None and sys.stderr is first:  # it keeps the buffer open
        sys.stderr = _Stderr(first.buffer, first.encoding, "backslashreplace", line_buffering=True)
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid-{os.getuid()}"
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - Path.home() would raise
        os.environ["HOME"] = str(own_temporary_directory())

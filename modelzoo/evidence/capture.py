"""Capture what native libraries print, at file-descriptor level."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Callable

# What Kineto, oneDNN and MKL print around a profile; of no use on the terminal.
_NOISE = re.compile(
    r"(onednn|dnnl|mkldnn)_verbose,|MKL_VERBOSE |USDT:|MIDR_EL1|DeviceProperties\.cpp|CuptiActivity"
    r"|^(STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d |Kineto"
)


@contextlib.contextmanager
def captured_output(problems: list[str]) -> Iterator[Callable[[], str]]:
    """Redirect file descriptors 1 and 2 to a file; yield a function that returns what was written so far.

    On exit, everything except the libraries' own output is printed to standard error. C's stdio buffer, which Python
    does not know, is flushed before and after.

    Args:
        problems: receives a message if a descriptor is closed.
    """
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as stack:
        _flush()
        for descriptor in (1, 2):
            try:
                saved = os.dup(descriptor)
            except OSError:
                problems.append(f"file descriptor {descriptor} is closed, so its output could not be captured")
                continue
            os.dup2(file.fileno(), descriptor)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, descriptor)

        def written() -> str:
            _flush()
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")

        try:
            yield written
        finally:
            text = written()
            stack.close()
            for line in text.splitlines():
                if line.strip() and not _NOISE.search(line):
                    print(line, file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)

"""Jittor on the CPU, in an environment of its own that ``scripts/setup-jittor`` makes.

Importing Jittor compiles C++, imports torch if it can, turns the verification of TLS certificates off, and changes the
limits of recursion and stack, so it is imported only in processes that measure it or serve its predictions. Those
processes never import torch.

This module finds the environment, and knows what a process needs to run Jittor in it; importing it imports no Jittor.
``import_jittor`` does, with what that changes in the process undone as far as it can be; it is for processes of the
environment alone, started with ``variables``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from modelzoo.errors import EnvironmentProblem
from modelzoo.files import cache_directory
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.workload.discovery import CHECKOUT, is_checkout

DIRECTORY_VARIABLE = "MODELZOO_JITTOR"
"""The environment variable that names the directory, if it is not ``envs/jittor``."""
HOME_VARIABLE = "JITTOR_HOME"
SERIAL_VARIABLE = "DISABLE_MULTIPROCESSING"
"""Set: Jittor compiles in the process itself; unset, every import starts up to 16 processes, which stay."""
STAMP = "modelzoo-jittor"
"""The file that ``scripts/setup-jittor`` writes last."""
LIBRARY = "libdnnl.so.2"
"""oneDNN 2.x, whose interface Jittor uses; Debian's package libdnnl2."""
ONEDNN_DIRECTORY = "dnnl_lnx_2.2.0_cpu_gomp"
"""Where Jittor looks for oneDNN before it downloads it; Jittor appends ``_aarch64`` on aarch64."""
SYSTEM = Path("/usr")


def directory() -> Path:
    """The directory of the environment; it need not exist."""
    configured = os.environ.get(DIRECTORY_VARIABLE)
    if configured:
        return Path(configured).absolute()
    return CHECKOUT / "envs" / "jittor" if is_checkout() else cache_directory() / "jittor"


def how_to_install() -> str:
    """The command that makes the environment; the script is not part of the installed package."""
    script = "scripts/setup-jittor"
    return script if is_checkout() else f"{script} {directory()} in a clone of the repository"


def interpreter() -> str:
    """Return the interpreter of the environment.

    Raises:
        EnvironmentProblem: there is no such environment, or it is incomplete.
    """
    place = directory()
    if not (place / STAMP).is_file() or not (place / "bin" / "python").exists():
        state = "is incomplete" if place.is_dir() else "does not exist"
        raise EnvironmentProblem(f"Jittor is not installed, its environment {place} {state}: run {how_to_install()}")
    return str(place / "bin" / "python")


def is_inside() -> bool:
    """Whether this process runs in the environment."""
    return Path(sys.prefix).resolve() == directory().resolve()


def version() -> str | None:
    """The version of Jittor in the environment; ``None`` if it is not installed there."""
    places = [str(path) for path in directory().glob("lib/python3*/site-packages")]
    found = next(iter(metadata.distributions(name="jittor", path=places)), None)
    return None if found is None else found.version


def home() -> Path:
    """The directory where Jittor keeps what it compiles; it need not exist."""
    own = directory() / "home"
    return own if os.access(own, os.W_OK) else cache_directory() / "jittor"


def variables(threads: int) -> dict[str, str]:
    """Environment variables that Jittor needs before it is imported."""
    return {
        **dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(threads)),
        HOME_VARIABLE: str(home()),
        "nvcc_path": "",  # empty: no CUDA; unset, it would look for a compiler and download one
        "use_mpi": "0",
        SERIAL_VARIABLE: "1",
        "use_mkl": "1",  # what Jittor calls oneDNN
        "FIX_TORCH_ERROR": "0",  # it would import torch
        "cache_name": "default",  # by default the branch of the git checkout around the environment
        "log_silent": "1",
    }


def link_onednn(home: Path) -> None:
    """Put links to the system's oneDNN where Jittor looks for it, so that it downloads none.

    Raises:
        EnvironmentProblem: oneDNN 2.x is not installed, or ``home`` cannot be written to.
    """
    header = SYSTEM / "include" / "dnnl.hpp"
    library = SYSTEM / "lib" / f"{platform.machine()}-linux-gnu" / LIBRARY
    missing = next((path for path in (header, library) if not path.exists()), None)
    if missing is not None:
        raise EnvironmentProblem(
            f"{missing} does not exist: run {how_to_install()}, or apt-get install libdnnl-dev (oneDNN 2.x)"
        )
    suffix = "_aarch64" if platform.machine() == "aarch64" else ""
    place = home / ".cache" / "jittor" / "mkl" / f"{ONEDNN_DIRECTORY}{suffix}"
    try:
        for target, link in ((header, place / "include" / header.name), (library, place / "lib" / "libmkldnn.so")):
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                link.symlink_to(target)
    except OSError as error:
        raise EnvironmentProblem(f"{place} cannot be written to: {error.strerror}; run {how_to_install()}") from error


_LOG_LENGTH = 200
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|\[[a-z] \d{4} [\d:.]+ +\w+ [\w.]+:\d+\]")
"""Colours, and the beginning of a line of its log, such as ``[f 1122 16:26:47.848523 12 executor.cc:686]``."""
_REASON = re.compile(r"\[?\bReason\]?:")
_ADVICE = "\n**********\n"
_SIGNALS = [signal.Signals[f"SIG{name}"] for name in ["BUS", "CHLD", "FPE", "ILL", "INT", "QUIT", "SEGV"]]
"""The signals that Jittor handles."""


def import_jittor() -> Any:
    """Import Jittor; the first time on a machine, this compiles it, which takes minutes.

    Raises:
        EnvironmentProblem: it cannot be imported or compiled, or its environment is incomplete.
    """
    home = Path(os.environ[HOME_VARIABLE])
    # The Python to which Jittor passes every kernel that it compiles, with Jittor's home as its home: each of these
    # processes may write a file there, and fails if it reads one that is half written.
    python = Path(sys.prefix) / "bin" / "jittor-python"
    if not python.exists():
        raise EnvironmentProblem(f"{python} does not exist: run {how_to_install()} again")
    link_onednn(home)
    with _contained(home):
        try:
            import jittor
        except Exception as error:  # a failed compiler call raises errors of many types
            problem = f"Jittor cannot be imported ({reason_of(error)}): run {how_to_install()} again"
            raise EnvironmentProblem(problem) from error
    # One word, because Jittor takes the others for files that it compiles.
    jittor.flags.python_path = str(python)
    return jittor


def reason_of(error: Exception) -> str:
    """Return the line that gives the reason, of an error of Jittor, which has many: context, reason and advice."""
    text = _DECORATION.sub("", str(error)).partition(_ADVICE)[0]
    _, *reasons = _REASON.split(text)
    lines = [line.strip() for line in (reasons[-1] if reasons else text).splitlines() if line.strip()]
    return (lines[0 if reasons else -1] if lines else type(error).__name__)[:_LOG_LENGTH]


@contextmanager
def _contained(home: Path) -> Iterator[None]:
    """Undo what the import of Jittor changes in this process, and keep it from the user's own files.

    Jittor writes the place of its cache to a file in the home directory, which the user's own Jittor would read; it
    names its cache after the host, which has another name in every container; it turns the verification of TLS
    certificates off; and it ends the process as soon as a child of it is stopped, which happens between turns.
    """
    verified, node, user_home = ssl._create_default_https_context, platform.node, os.environ.get("HOME")
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    os.environ["HOME"] = str(home)
    platform.node = lambda: ""
    try:
        yield
    finally:
        ssl._create_default_https_context = verified
        platform.node = node
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if user_home is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = user_home


def onednn() -> ctypes.CDLL:
    """The oneDNN that Jittor's operators are linked to."""
    return ctypes.CDLL(LIBRARY)


def onednn_version() -> str:
    """The version of that oneDNN."""
    function = onednn().dnnl_version
    # ``dnnl_version_t`` begins with major, minor and patch.
    function.restype = ctypes.POINTER(ctypes.c_int * 3)
    return ".".join(map(str, function().contents))

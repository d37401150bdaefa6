"""The environment that holds Jittor: where it is, and what a process needs to run Jittor in it. Imports no Jittor."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from modelzoo.directories import cache_directory
from modelzoo.errors import EnvironmentProblem
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

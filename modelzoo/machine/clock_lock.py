"""Lock the clocks of NVIDIA's GPUs for the duration of a call, and set them back whatever happens (``--lock-clocks``).

A process of its own, the guard, locks the clocks and sets them back as soon as its standard input is closed. The kernel
closes it when the parent ends, however that happens, so a parent that is killed leaves no clock locked. The guard is in
a session of its own, which Ctrl-C in the terminal does not reach. Only if the guard itself is killed by SIGKILL do the
clocks stay locked; ``nvidia-smi -rgc`` sets them back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.nvml import handles, library

_LOCKED = "locked"


@contextmanager
def locked_clocks(mhz: int | None) -> Iterator[None]:
    """Hold the clocks of all GPUs that the workers may use at ``mhz``; ``None``: leave them alone.

    Raises:
        EnvironmentProblem: they cannot be locked; the message says why.
    """
    if mhz is None:
        yield
        return
    guard = subprocess.Popen(
        [sys.executable, "-m", "modelzoo.machine.clock_lock", str(mhz)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guard.stdin is not None and guard.stdout is not None
    try:
        said = guard.stdout.readline().strip()
        if said != _LOCKED:
            raise EnvironmentProblem(f"--lock-clocks {mhz}: {said or 'the process that locks them ended'}")
        yield
    finally:
        guard.stdin.close()
        guard.wait()
        guard.stdout.close()


def main(arguments: Sequence[str]) -> int:
    """Be the guard: lock the clocks, wait until standard input is closed, and set them back."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        nvml = library()
        gpus = handles(nvml, os.environ)
    except EnvironmentProblem as problem:
        print(problem, flush=True)
        return 2
    return hold(nvml, gpus, int(arguments[0]))


def hold(nvml: Any, gpus: Sequence[Any], mhz: int) -> int:
    """Lock ``gpus`` at ``mhz`` until standard input is closed or a signal ends this process."""
    locked: list[Any] = []
    try:
        for gpu in gpus:
            nvml.nvmlDeviceSetGpuLockedClocks(gpu, mhz, mhz)
            locked.append(gpu)
        print(_LOCKED, flush=True)
        sys.stdin.read()
        return 0
    except nvml.NVMLError as error:
        print(f"NVML refuses ({error}); run as root, and see nvidia-smi -q -d SUPPORTED_CLOCKS", flush=True)
        return 2
    finally:
        for gpu in locked:
            nvml.nvmlDeviceResetGpuLockedClocks(gpu)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

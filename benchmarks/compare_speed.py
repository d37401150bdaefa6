"""How long do `modelzoo compare` and `modelzoo report -o` take, and how much memory do they need?

    .venv/bin/python benchmarks/compare_speed.py

Small files are a stored result of the tests, compared with itself. Large ones are made: two sides of 10 settings with
10 processes each, together 200 runs of 10,000 samples. The commands are called as a user calls them, with the start of
Python. The median of several calls counts, and of each its processor time, user and system: on a quiet machine that is
its wall time, which is shown beside it, because the commands compute in one thread.

The claims, on one core of a server: `compare` takes less than 0.3 s for small files and less than 3 s for large ones;
`report -o` takes less than 20 s for the large ones, and less than 300 MB of memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import common  # noqa: F401 - puts the checkout on the path
import numpy as np
from claims import Claim, conclude

from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.records.timing import LATENCY, SamplingStop, Series, Timing, WarmUpEnd
from modelzoo.results import store
from modelzoo.workload.discovery import CHECKOUT

TEMPLATE = CHECKOUT / "tests" / "data" / "results" / "mlp.json"
"""Lends the made runs everything but their times."""
SETTINGS, PROCESSES, SAMPLES = 10, 10, 10_000
SMALL, LARGE, REPORT = 0.3, 3.0, 20.0
"""Seconds."""
MEMORY = 300e6
"""Bytes."""


@dataclass(frozen=True)
class Used:
    """What a command used: processor time and wall time in seconds, and the most memory at a time, in bytes."""

    seconds: float
    wall: float
    memory: float


def made_result(generator: np.random.Generator, created: str) -> Result:
    """A result of ``SETTINGS`` settings with ``PROCESSES`` processes of ``SAMPLES`` samples each."""
    template = next(run for run in store.read(TEMPLATE).runs if run.report is not None)
    settings = [template.requested.replace(threads=threads) for threads in range(1, SETTINGS + 1)]
    requested = tuple(SettingRequest(template.workload, setting) for setting in settings)
    runs = [
        _run(template, group, number, 0.01 * np.exp(0.02 * generator.standard_normal(SAMPLES)))
        for number in range(PROCESSES)
        for group in range(SETTINGS)
    ]
    runs = [replace(run, requested=settings[run.group]) for run in runs]
    return Result(("modelzoo", "run", "mlp"), created, requested, tuple(runs))


def _run(template: Run, group: int, number: int, samples: np.ndarray) -> Run:
    report = template.report
    assert report is not None
    series = Series(LATENCY, tuple(samples.tolist()))
    timing = Timing(1.0, (0.02, 0.01), (series,), LATENCY, WarmUpEnd.SETTLED, SamplingStop.ITERATIONS)
    prepared = replace(report.prepared, setting=replace(report.setting, threads=group + 1))
    return replace(template, group=group, round=number, report=replace(report, prepared=prepared, timing=timing))


def used(*arguments: str, times: int) -> Used:
    """Call ``modelzoo`` several times; return the medians.

    Raises:
        SystemExit: it ended with another exit code than 0.
    """
    found = [_used(arguments) for _ in range(times)]
    seconds, wall = (median(values) for values in zip(*((each.seconds, each.wall) for each in found)))
    return Used(seconds, wall, median(each.memory for each in found))


def _used(arguments: Sequence[str]) -> Used:
    command = [sys.executable, "-m", "modelzoo", *arguments]
    with Path(os.devnull).open("wb") as nowhere:
        started = perf_counter()
        process = os.posix_spawn(
            sys.executable,
            command,
            {**os.environ, "PYTHONPATH": str(CHECKOUT)},
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )
        _, status, usage = os.wait4(process, 0)
        wall = perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise SystemExit(f"modelzoo {' '.join(arguments)} ended with exit code {code}")
    return Used(usage.ru_utime + usage.ru_stime, wall, 1024 * usage.ru_maxrss)


def claim(what: str, found: Used, seconds: float, memory: float | None = None) -> Claim:
    """The command took less than this, and had less than this much memory."""
    text = f"{what}: {found.seconds:.2f} s (wall time {found.wall:.2f} s), less than {seconds:g} s"
    if memory is not None:
        text += f"; {found.memory / 1e6:.0f} MB, less than {memory / 1e6:.0f} MB"
    return Claim(text, found.seconds < seconds and (memory is None or found.memory < memory))


def main() -> int:
    """Print what the commands used; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        sides = [Path(directory) / name for name in ("base.json", "other.json")]
        for day, path in enumerate(sides, 1):
            store.write(made_result(generator, f"2026-01-{day:02}T00:00:00+00:00"), path)
        small, page = str(TEMPLATE), str(Path(directory) / "report.html")
        large = [str(path) for path in sides]
        runs = f"{2 * SETTINGS * PROCESSES} runs of {SAMPLES:,} samples"
        return conclude(
            [
                claim("compare, small files", used("compare", small, small, times=9), SMALL),
                claim(f"compare, {runs}", used("compare", *large, times=3), LARGE),
                claim(f"report -o, {runs}", used("report", *large, "-o", page, times=1), REPORT, MEMORY),
            ]
        )


if __name__ == "__main__":
    sys.exit(main())

"""Does judging by several processes cost more than by one? The wall time of two on one core each, and the metric.

    .venv/bin/python benchmarks/sharded_validation.py bert --data squad.json --weights DIR --limit 600 [--pairs 2]

A is ``modelzoo fleet validate`` on two Dask workers on loopback, each on one core. B is ``modelzoo validate`` in one
process on the same two cores. Both are whole commands: starting, loading, judging and merging. The order alternates:
A B, B A. The claims: A takes at most 1.05 of B's time, the metric is the same to the last digit, and every item counts
once. All options of ``modelzoo validate`` are passed on.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import common  # noqa: F401 - puts the checkout on the path
from claims import Claim, conclude
from distributed import Client

from modelzoo.machine.linux import allowed_cpus
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.stats import geometric_mean
from modelzoo.workload.discovery import CHECKOUT

MAX_RATIO = 1.05
PROCESSES = 2


def one_process(words: Sequence[str], cores: Sequence[int], folder: Path) -> tuple[float, Result]:
    """Judge in one process on all of ``cores``; return seconds and the result."""
    path = folder / "one.json"
    command = [*_pinned(cores), sys.executable, "-m", "modelzoo", "validate", *words, "--json", str(path)]
    began = perf_counter()
    _end([_start([*command, "--artifacts", str(folder / "output")])])
    return perf_counter() - began, store.read(path)


def fleet(words: Sequence[str], cores: Sequence[int], folder: Path) -> tuple[float, Result]:
    """Judge in one Dask worker per core, which run before the clock starts; return seconds and the result."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    path, address = folder / "fleet.json", f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    started = [subprocess.Popen([*dask, "--no-dashboard"], stderr=subprocess.DEVNULL)]
    for core in cores:
        dask = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nworkers", "1", "--nthreads", "1"]
        dask += ["--resources", "host=1", "--no-dashboard", "--no-nanny", "--local-directory", str(folder)]
        started.append(subprocess.Popen([*_pinned([core]), *dask], stderr=subprocess.DEVNULL))
    try:
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(len(cores), timeout=60)
        command = [*_pinned(cores), sys.executable, "-m", "modelzoo", "fleet", "validate", *words, "--json", str(path)]
        command += ["--shards-dir", str(folder / "shards"), "--scheduler", address]
        began = perf_counter()
        _end([_start([*command, "--artifacts", str(folder / "output")])])
        return perf_counter() - began, store.read(path)
    finally:
        for process in started:
            process.kill()
            process.wait()


def _pinned(cores: Sequence[int]) -> list[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=CHECKOUT, env=os.environ, stderr=subprocess.PIPE)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for processes that judge; NOT VALID is a judgement, too."""
    printed = [process.communicate()[1].decode(errors="replace") for process in processes]
    for process, text in zip(processes, printed):
        if process.returncode not in (0, 1):
            raise SystemExit(f"a process ended with code {process.returncode}:\n{text[-2000:]}")


def judged(result: Result) -> tuple[object, ...]:
    """What must be equal: the metric of both models, the verdict, and the number of items."""
    (entry,) = result.validity
    if entry.report is None:
        raise SystemExit(f"it could not be judged: {entry.error}")
    found = entry.report.validity
    return found.metric, found.reference, found.tested, found.verdict, tuple(sorted(found.counts.items()))


def main() -> int:
    """Print the figures; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2, help="pairs of A and B (default 2)")
    args, words = parser.parse_known_args()
    cores = sorted(allowed_cpus())[:PROCESSES]
    if len(cores) < PROCESSES:
        raise SystemExit(f"this takes {PROCESSES} cores")
    ratios, equal, whole = [], [], []
    for pair in range(args.pairs):
        seconds: dict[str, float] = {}
        results: dict[str, Result] = {}
        sides = {"fleet": fleet, "one": one_process}
        for name in sorted(sides, reverse=bool(pair % 2)):
            with tempfile.TemporaryDirectory() as folder:
                seconds[name], results[name] = sides[name](words, cores, Path(folder))
        ratios.append(seconds["fleet"] / seconds["one"])
        equal.append(judged(results["fleet"]) == judged(results["one"]))
        (sharding,) = results["fleet"].sharding
        whole.append(sum(host.items for host in sharding.hosts) == sharding.items)
        print(
            f"pair {pair + 1}: {seconds['fleet']:.1f} s by {PROCESSES} processes, {seconds['one']:.1f} s by one, ratio "
            f"{ratios[-1]:.3f}; {judged(results['fleet'])} and {judged(results['one'])}",
            flush=True,
        )
    ratio = geometric_mean(ratios)
    return conclude(
        [
            Claim(f"wall time of {PROCESSES} processes ÷ one: {ratio:.3f}, at most {MAX_RATIO}", ratio <= MAX_RATIO),
            Claim("the metric is the same to the last digit", all(equal)),
            Claim("every item was judged once", all(whole)),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

"""Turn stored results into a compact recording of their timings, which is kept as test data.

    .venv/bin/python benchmarks/recordings.py results/*.json -o tests/data/timings/NAME.json.gz

Each result is one session. A recording keeps all samples (to 4 significant digits), when they were taken, and what each
process cost. ``benchmarks/precision.py`` replays recordings.
"""

from __future__ import annotations

import argparse
import gzip
import math
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

import common  # noqa: F401 - puts the checkout on the path
import msgspec

from modelzoo.errors import InputError, ModelzooError
from modelzoo.records.run import Result, Run
from modelzoo.results import store
from modelzoo.workload.discovery import CHECKOUT

TIMINGS = CHECKOUT / "tests" / "data" / "timings"
"""Where recordings are kept."""
COMMIT = 12
"""Digits of a commit that are kept."""


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of sampling: its start and end in seconds since the session began, and its number of samples."""

    start: float
    end: float
    samples: int


class Process(msgspec.Struct, frozen=True):
    """One process of one setting.

    Attributes:
        workload: the workload's name.
        label: the setting, as tables show it.
        precision: ``fp32`` or ``bf16``.
        session: number of the session, from 0.
        round: number of the round within the session; processes with the same number sampled in alternating turns.
        started: seconds since the session began, by a clock of whole seconds.
        cost: its share of the wall time of its round, besides the samples of the round: start, build, warm-up, audit.
            In seconds.
        samples: seconds of each steady sample, in the order in which they were taken.
        turns: when they were taken; empty if that was not recorded.
    """

    workload: str
    label: str
    precision: str
    session: int
    round: int
    started: float
    cost: float
    samples: tuple[float, ...]
    turns: tuple[Turn, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What tells its setting from all others: workload and label."""
        return self.workload, self.label

    @property
    def level(self) -> float:
        """The log of the median of its samples."""
        return math.log(median(self.samples))


class Machine(msgspec.Struct, frozen=True):
    """What was measured on: the CPU's name, threads of the workers, torch's version, and the suite's commit."""

    cpu: str
    threads: int
    torch: str
    commit: str


class Recording(msgspec.Struct, frozen=True):
    """Several sessions on one machine.

    Attributes:
        machine: the machine, and the software.
        sessions: when each session began; UTC, ISO 8601.
        processes: by session, then in the order of the settings (a workload's first setting is its baseline), then
            in the order of the rounds.
    """

    machine: Machine
    sessions: tuple[str, ...]
    processes: tuple[Process, ...]


def settings(processes: Iterable[Process]) -> dict[tuple[str, str], list[Process]]:
    """Group processes by setting, in the order in which they come."""
    found: dict[tuple[str, str], list[Process]] = {}
    for process in processes:
        found.setdefault(process.key, []).append(process)
    return found


def baselines(processes: Iterable[Process]) -> dict[str, str]:
    """The label of each workload's first setting."""
    found: dict[str, str] = {}
    for process in processes:
        found.setdefault(process.workload, process.label)
    return found


def record(results: Sequence[Result]) -> Recording:
    """Convert the results of several sessions on one machine.

    Raises:
        InputError: they have no timings, or come from different machines or versions of torch.
    """
    sessions = sorted(results, key=lambda result: result.created)
    machines = {_machine(result, run) for result in sessions for run in result.runs if run.steady}
    if not machines:
        raise InputError("the results have no timings")
    if len({(each.cpu, each.threads, each.torch) for each in machines}) > 1:
        raise InputError("the results come from different machines or versions of torch")
    commits = sorted({each.commit for each in machines})
    return Recording(
        machine=msgspec.structs.replace(min(machines, key=lambda each: each.commit), commit=", ".join(commits)),
        sessions=tuple(result.created for result in sessions),
        processes=tuple(each for number, result in enumerate(sessions) for each in _processes(number, result)),
    )


def _machine(result: Result, run: Run) -> Machine:
    report = run.report
    assert report is not None, "a run with samples has a report"
    versions = report.provenance.versions
    commit = (result.commit or "?")[:COMMIT]
    return Machine(report.provenance.machine.cpu, report.setting.threads, versions.get("torch", "?"), commit)


def _processes(session: int, result: Result) -> list[Process]:
    began = _seconds(result.created)
    timed = [run for runs in result.groups().values() for run in runs if run.steady]
    return [
        Process(
            workload=run.workload,
            label=result.label(run.group),
            precision=run.requested.precision,
            session=session,
            round=run.round,
            started=_seconds(run.started) - began,
            cost=round(_cost([each for each in timed if (each.workload, each.round) == (run.workload, run.round)]), 2),
            samples=tuple(float(f"{sample:.4g}") for sample in run.steady),
            turns=_turns(run, began),
        )
        for run in timed
    ]


def _turns(run: Run, began: float) -> tuple[Turn, ...]:
    turns = run.report.turns or () if run.report is not None else ()
    # Turns without a number of samples are of a format whose clock did not begin with the epoch.
    known = [(turn, turn.samples) for turn in turns if turn.samples is not None]
    return tuple(Turn(round(turn.start - began, 3), round(turn.end - began, 3), count) for turn, count in known)


def _cost(runs: Sequence[Run]) -> float:
    """Wall seconds of a round besides its samples, per process."""
    wall = max(_seconds(run.ended or run.started) for run in runs) - min(_seconds(run.started) for run in runs)
    return max(0.0, wall - sum(sum(run.steady) for run in runs)) / len(runs)


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


def write(recording: Recording, path: Path) -> None:
    """Write ``recording``; equal recordings make equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(msgspec.json.encode(recording), 9, mtime=0))


def read(path: Path) -> Recording:
    """Read what ``write`` wrote.

    Raises:
        InputError: the file is not a recording.
    """
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Recording)
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is not a recording of benchmarks/recordings.py: {error}") from error


def kept() -> list[Path]:
    """The recordings that are kept as test data."""
    return sorted(TIMINGS.glob("*.json.gz"))


def describe(recording: Recording) -> str:
    """One line about a recording."""
    machine, count = recording.machine, len(recording.processes)
    return (
        f"{machine.cpu}, {machine.threads} threads, torch {machine.torch}, commit {machine.commit}: "
        f"{len(recording.sessions)} sessions, {len(settings(recording.processes))} settings, {count} processes"
    )


def main() -> int:
    """Write the recording; the exit code is 2 if the results cannot make one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help="results of 'modelzoo run'")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the file to write, NAME.json.gz")
    args = parser.parse_args()
    try:
        recording = record([store.read(path) for path in args.results])
    except ModelzooError as problem:
        print(problem, file=sys.stderr)
        return 2
    write(recording, args.output)
    print(f"{args.output} ({args.output.stat().st_size / 1000:.0f} kB): {describe(recording)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Turn stored results into a compact recording of their timings, which is kept as test data.

    .venv/bin/python benchmarks/recordings.py results/*.json -o tests/data/timings/NAME.json.gz

Each result is one session; its samples are kept to 4 significant digits. ``benchmarks/build_checks.py`` replays
recordings.
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec
from common import parser_of

from modelzoo.errors import InputError, ModelzooError
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run
from modelzoo.results import store
from modelzoo.workload.discovery import CHECKOUT

TIMINGS = CHECKOUT / "tests" / "data" / "timings"
"""Where recordings are kept."""
COMMIT = 12
"""Digits of a commit that are kept."""


class Process(msgspec.Struct, frozen=True):
    """One process of one setting.

    Attributes:
        workload: the workload's name.
        label: the setting, as tables show it.
        session: number of the session, from 0.
        round: number of the round within the session; processes with the same number sampled in alternating turns.
        samples: seconds of each steady sample, in the order in which they were taken.
    """

    workload: str
    label: str
    session: int
    round: int
    samples: tuple[float, ...]

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


def record(results: Sequence[Result]) -> Recording:
    """Convert the results of several sessions on one machine.

    Raises:
        InputError: they have no timings, or come from different machines or versions of torch.
    """
    sessions = sorted(results, key=lambda result: result.created)
    machines = {_machine(result, run) for result in sessions for run in result.runs if run.steady}
    if not machines:
        raise InputError("the results have no timings")
    if len({replace(each, commit="") for each in machines}) > 1:
        raise InputError("the results come from different machines or versions of torch")
    commits = sorted({each.commit for each in machines})
    return Recording(
        machine=replace(min(machines, key=lambda each: each.commit), commit=", ".join(commits)),
        sessions=tuple(result.created for result in sessions),
        processes=tuple(
            Process(
                workload=run.workload,
                label=result.label(run.group),
                session=session,
                round=run.round,
                samples=tuple(float(f"{sample:.4g}") for sample in run.steady),
            )
            for session, result in enumerate(sessions)
            for runs in result.groups().values()
            for run in runs
            if run.steady
        ),
    )


def _machine(result: Result, run: Run) -> Machine:
    report = run.report
    assert report is not None, "a run with samples has a report"
    versions = report.provenance.versions
    commit = (result.commit or "?")[:COMMIT]
    return Machine(report.provenance.machine.cpu, report.setting.threads, versions.get("torch", "?"), commit)


def write(recording: Recording, path: Path) -> None:
    """Write ``recording``; equal recordings make equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(msgspec.json.encode(recording), 9, mtime=0))


def read(path: Path) -> Recording:
    """Read what ``write`` wrote; what older recordings have besides is left out.

    Raises:
        InputError: the file is not a recording.
    """
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Recording)
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is not a recording of benchmarks/recordings.py: {error}") from error


def main() -> int:
    """Write the recording; the exit code is 2 if the results cannot make one."""
    parser = parser_of(__doc__)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help="results of 'modelzoo run'")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the file to write, NAME.json.gz")
    args = parser.parse_args()
    try:
        recording = record([store.read(path) for path in args.results])
    except ModelzooError as problem:
        parser.error(str(problem))
    write(recording, args.output)
    sessions, processes = len(recording.sessions), len(recording.processes)
    print(f"{args.output}: {sessions} sessions, {processes} processes, {args.output.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

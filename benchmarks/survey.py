"""Examine and measure a machine, and write one archive to send: ``survey.py [-o FILE] [--quick]``.

Meant for machines that the suite was never timed on. In about an hour: ``doctor``; the four workloads in fp32 and bf16,
timed; their kernels with oneDNN and without; two equal runs, which should not differ (A/A); what ``throughput`` would
measure; oneDNN's log of a small network in every bf16 method, in the form of ``tests/data``; and the topology of the
machine. A step that fails is recorded as such, and the others go on.

Results, reports and what the commands printed are redacted as ``modelzoo report --redact`` does it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from modelzoo.errors import ModelzooError  # noqa: E402 (the suite is found first)
from modelzoo.files import write_atomically  # noqa: E402
from modelzoo.records.codec import decode, encode_json  # noqa: E402
from modelzoo.records.doctor import DoctorReport  # noqa: E402
from modelzoo.results import store  # noqa: E402
from modelzoo.views.page.redaction import names_here, redacted, redacted_record, redacted_text  # noqa: E402

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert")
INTERRUPTED = 130
"""Exit code of a step that Ctrl-C ended, as ``modelzoo`` has it."""
SECONDS_TO_END = 30.0
"""How long a command may take to store what it has after Ctrl-C."""
TOPOLOGY = (
    "proc/cpuinfo",
    "proc/meminfo",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/system/cpu/modalias",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/cpu*/cache/index*/*",
    "sys/devices/system/cpu/cpu*/cpufreq/*_freq",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu*/topology/*",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/kernel/mm/transparent_hugepage/enabled",
)
"""What the suite knows a machine by, as patterns below the root. Other files of these directories have serial numbers
or addresses."""
_SERIAL = re.compile(r"^serial\b.*\n?", re.IGNORECASE | re.MULTILINE)


class Step(msgspec.Struct, frozen=True):
    """A command of the survey.

    Attributes:
        name: of its files in the archive.
        command: the arguments of Python.
    """

    name: str
    command: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    """How a step ended.

    Attributes:
        name: of the step.
        exit_code: of its command.
        seconds: how long it took.
    """

    name: str
    exit_code: int
    seconds: float


def steps(folder: Path, *, quick: bool, workloads: Sequence[str] = WORKLOADS) -> list[Step]:
    """Return what to do; the commands write into ``folder``.

    Args:
        folder: an empty directory.
        quick: one short process per setting, to try the survey itself or to run it where nothing can be timed.
        workloads: what to measure.
    """
    once = ("--processes", "1", "--max-seconds", "0.5" if quick else "3")

    def suite(name: str, *arguments: str, stored: bool = True) -> Step:
        output = ("-o", str(folder / f"{name}.json")) if stored else ()
        return Step(name, ("-m", "modelzoo", *arguments, *output))

    def timed(minutes: int) -> tuple[str, ...]:
        return once if quick else ("--budget", f"{minutes}m")

    pair = [name for name in workloads if name in ("resnet50", "bert")] or list(workloads[:1])
    return [
        suite("doctor", "doctor", "--fresh"),
        suite("run", "run", *workloads, "--precision", "fp32,bf16", "--label", "survey", *timed(20)),
        suite("backends", "run", *workloads, "--precision", "fp32,bf16", "--vary", "backend=onednn,blas", *once),
        suite("first", "run", *pair, "--precision", "fp32", "--label", "first", *timed(5)),
        suite("second", "run", *pair, "--precision", "fp32", "--label", "second", *timed(5)),
        Step("same", ("-m", "modelzoo", "compare", str(folder / "first.json"), str(folder / "second.json"))),
        *(suite(f"plan-{Path(each).name}", "throughput", each, "--dry-run", stored=False) for each in workloads),
        Step("recordings", (str(ROOT / "tests/data/record_onednn.py"), str(folder))),
    ]


def perform(step: Step, folder: Path, progress: Callable[[str], None]) -> Outcome:
    """Run a step; what it prints is kept in ``folder``.

    Ctrl-C reaches the command as well, which stores the runs that it has finished; the exit code is ``INTERRUPTED``.
    """
    progress(f"{step.name} …")
    begun, printed = time.monotonic(), folder / f"{step.name}.txt"
    with printed.open("wb") as output:
        command, child = [sys.executable, *step.command], None
        try:
            child = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            code = child.wait()
        except KeyboardInterrupt:  # also one that comes while the command is started
            code = INTERRUPTED
            if child is not None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(SECONDS_TO_END)
                child.kill()
                child.wait()
    if code not in (0, INTERRUPTED):
        last = (printed.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
        progress(f"{step.name} failed with exit code {code}: {last}")
    return Outcome(step.name, code, round(time.monotonic() - begun, 1))


def topology(root: Path = Path("/")) -> Iterator[tuple[str, str]]:
    """Yield the files that describe the machine, with their content; none has a serial number."""
    for pattern in TOPOLOGY:
        for path in sorted(root.glob(pattern)):
            try:
                yield str(path.relative_to(root)), _SERIAL.sub("", path.read_text())
            except (OSError, UnicodeDecodeError):  # some can only be read by root, or while a CPU is online
                continue


def redact(folder: Path, people: Sequence[str]) -> list[str]:
    """Redact the files of ``folder`` in place; return the names of those that could not be, which are deleted."""
    lost = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".txt":
            path.write_text(redacted_text(path.read_text(errors="replace"), people))
        elif path.name == "doctor.json":
            report = decode(DoctorReport, json.loads(path.read_text()))
            path.write_bytes(encode_json(redacted_record(report, people)))
        elif path.suffix == ".json" and not path.name.startswith("table_"):
            try:
                store.write(redacted(store.read(path), people), path)
            except ModelzooError:
                lost.append(path.name)
                path.unlink()
        elif path.suffix != ".json":  # a plot beside a result
            path.unlink()
    return lost


def survey(archive: Path, todo: Callable[[Path], Sequence[Step]], progress: Callable[[str], None]) -> list[Outcome]:
    """Perform the steps, and write the archive; what was done before an interruption is kept.

    Args:
        archive: the file to write.
        todo: the steps, given the directory that they write to.
        progress: told what happens.
    """
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "survey")
        folder.mkdir()
        for step in todo(folder):
            outcomes.append(perform(step, folder, progress))
            if outcomes[-1].exit_code == INTERRUPTED:
                progress("interrupted; what is finished is written")
                break
        lost = redact(folder, names_here())
        for name, content in topology():
            path = folder / "topology" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        index = {"machine": platform.machine(), "steps": outcomes, "not_redacted_and_left_out": lost}
        (folder / "index.json").write_bytes(encode_json(index))
        packed = Path(temporary, "survey.tar.gz")
        with tarfile.open(packed, "w:gz") as file:
            file.add(folder, "survey", filter=_anonymous)
        write_atomically(archive, packed.read_bytes())
    return outcomes


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(arguments: Sequence[str]) -> int:
    """Run the survey; returns 1 if a step failed, 2 if the archive cannot be written."""
    parser = argparse.ArgumentParser(
        prog="scripts/survey",
        description="Examine and measure this machine, and write one archive to send (benchmarks/survey.py).",
    )
    default = Path(f"survey-{platform.machine()}-{time.strftime('%Y-%m-%d')}.tar.gz")
    parser.add_argument("-o", "--output", type=Path, default=default, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="one short process per setting, to try the survey itself")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: the four of the suite")
    args = parser.parse_args(arguments)
    archive = args.output.resolve()
    if not archive.parent.is_dir():
        parser.error(f"-o {args.output}: the directory {archive.parent} does not exist")

    def progress(text: str) -> None:
        print(f"survey: {text}", file=sys.stderr, flush=True)

    chosen = args.workloads or WORKLOADS
    outcomes = survey(archive, lambda folder: steps(folder, quick=args.quick, workloads=chosen), progress)
    progress(f"wrote {args.output} ({archive.stat().st_size / 1e6:.1f} MB); send it after a look into it")
    return 1 if any(each.exit_code for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

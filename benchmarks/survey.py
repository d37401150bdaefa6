"""Examine and measure a machine, and write one archive to send: ``survey.py [-o FILE] [--quick]``.

Meant for machines that the suite was never timed on. In about an hour: ``doctor``; the four workloads in fp32 and bf16,
timed; their kernels with oneDNN and without; oneDNN's log of a small network in every bf16 method, in the form of
``tests/data``; and the topology of the machine. A step that fails is recorded as such, and the others go on.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import common  # noqa: F401 - puts the checkout on the path

from modelzoo.errors import ModelzooError
from modelzoo.files import write_atomically
from modelzoo.records.codec import decode, encode_json
from modelzoo.records.profile import DoctorReport
from modelzoo.results import store
from modelzoo.views.redaction import names_here, redacted, redacted_record, redacted_text
from modelzoo.workload.discovery import CHECKOUT, STANDARD_WORKLOADS

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


Steps = Mapping[str, Sequence[str]]
"""The arguments of Python, by the name of the step's files in the archive."""


def steps(folder: Path, *, quick: bool, workloads: Sequence[str] = STANDARD_WORKLOADS) -> Steps:
    """Return what to do; the commands write into ``folder``.

    Args:
        folder: an empty directory.
        quick: one short process per setting, to try the survey itself or to run it where nothing can be timed.
        workloads: what to measure.
    """
    once = ("--processes", "1", "--max-seconds", "0.5" if quick else "3")
    run = ("-m", "modelzoo", "run", *workloads, "--precision", "fp32,bf16")
    stored = {name: ("-o", str(folder / f"{name}.json")) for name in ("doctor", "run", "backends")}
    return {
        "doctor": ("-m", "modelzoo", "doctor", "--fresh", *stored["doctor"]),
        "run": (*run, "--label", "survey", *(once if quick else ("--budget", "30m")), *stored["run"]),
        "backends": (*run, "--vary", "backend=onednn,blas", *once, *stored["backends"]),
        "recordings": (str(CHECKOUT / "tests/data/record_onednn.py"), str(folder)),
    }


def perform(name: str, arguments: Sequence[str], folder: Path, progress: Callable[[str], None]) -> int:
    """Run a step, and return its exit code; what it prints is kept in ``folder``.

    Ctrl-C reaches the command as well, which stores the runs that it has finished; the exit code is ``INTERRUPTED``.
    """
    progress(f"{name} …")
    printed, child = folder / f"{name}.txt", None
    with printed.open("wb") as output:
        try:
            child = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
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
        progress(f"{name} failed with exit code {code}: {last}")
    return code


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


def survey(archive: Path, todo: Callable[[Path], Steps], progress: Callable[[str], None]) -> dict[str, int]:
    """Perform the steps, and write the archive; return their exit codes. What an interruption leaves is kept.

    Args:
        archive: the file to write.
        todo: the steps, given the directory that they write to.
        progress: told what happens.
    """
    codes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "survey")
        folder.mkdir()
        for name, arguments in todo(folder).items():
            codes[name] = perform(name, arguments, folder, progress)
            if codes[name] == INTERRUPTED:
                progress("interrupted; what is finished is written")
                break
        lost = redact(folder, names_here())
        for place, content in topology():
            path = folder / "topology" / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        index = {"machine": platform.machine(), "exit_codes": codes, "not_redacted_and_left_out": lost}
        (folder / "index.json").write_bytes(encode_json(index))
        packed = Path(temporary, "survey.tar.gz")
        with tarfile.open(packed, "w:gz") as file:
            file.add(folder, "survey", filter=_anonymous)
        write_atomically(archive, packed.read_bytes())
    return codes


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

    chosen = args.workloads or STANDARD_WORKLOADS
    codes = survey(archive, lambda folder: steps(folder, quick=args.quick, workloads=chosen), progress)
    progress(f"wrote {args.output} ({archive.stat().st_size / 1e6:.1f} MB); send it after a look into it")
    return 1 if any(codes.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

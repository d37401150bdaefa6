"""benchmarks/survey.py: what is sent from a machine that the suite was never timed on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import survey
from example_machine import LIBRARIES, QUIET, SERVER
from onednn_recordings import load_table
from places import ROOT

from modelzoo.cli.app import make_parser
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode_json
from modelzoo.records.profile import DoctorReport
from modelzoo.results import store

PEOPLE = ("build-host-7", "mallory")


def test_an_archive_has_what_was_measured_and_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that can be read, a recording in the form of tests/data, the topology; no path, no user, no host."""
    monkeypatch.setattr(survey, "names_here", lambda: list(PEOPLE))
    monkeypatch.setenv("SURVEY_SECRET", "hunter2")

    def todo(folder: Path) -> survey.Steps:
        every = survey.steps(folder, quick=True, workloads=["examples/mlp"])
        return {
            "run": every["run"],
            "recordings": (*every["recordings"], "fp32"),
            "shout": ("-c", "print('mallory at build-host-7 in /home/mallory/secret.py')"),
            "broken": ("-c", "1 / 0"),
        }

    archive = tmp_path / "survey.tar.gz"
    codes = survey.survey(archive, todo, print)
    assert codes == {"run": 0, "recordings": 0, "shout": 0, "broken": 1}
    with tarfile.open(archive) as file:
        assert {(member.uid, member.uname) for member in file} == {(0, "")}
        file.extractall(tmp_path, filter="data")
    folder = tmp_path / "survey"
    index = json.loads((folder / "index.json").read_text())
    assert (index["exit_codes"], index["not_redacted_and_left_out"]) == (codes, [])
    result = store.read(folder / "run.json")
    assert [entry.setting.precision for entry in result.requested] == ["fp32", "bf16"]
    assert all(run.steady for run in result.runs)
    (recorded,) = folder.glob("table_*_fp32.json")
    assert load_table(recorded).mode == "fp32"
    assert (folder / "topology/sys/devices/system/cpu/present").read_text()
    assert "ZeroDivisionError" in (folder / "broken.txt").read_text()
    for path in filter(Path.is_file, folder.rglob("*")):
        text = path.read_text(errors="replace")
        for secret in (*PEOPLE, "hunter2", str(tmp_path), str(ROOT)):
            assert secret not in text, path.name


INTERRUPTED = """
import sys
from pathlib import Path

import survey

INTERRUPTS = '''
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (print("kept", flush=True), sys.exit(130)))
print("began", flush=True)
os.killpg(0, signal.SIGINT)
time.sleep(60)
'''
todo = {"first": ("-c", "print(1)"), "second": ("-c", INTERRUPTS), "third": ("-c", "print(3)")}
print(survey.survey(Path(sys.argv[1]), lambda folder: todo, print))
"""


def test_an_interruption_leaves_what_is_done(tmp_path: Path) -> None:
    """Ctrl-C reaches the survey and its command, which keeps what it has; later steps are not begun."""
    archive = tmp_path / "survey.tar.gz"
    command = [sys.executable, "-c", INTERRUPTED, str(archive)]
    environment = {**os.environ, "PYTHONPATH": str(Path(survey.__file__).parent)}
    # in a process group of its own: the signal would end the worker that runs the tests
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, start_new_session=True, timeout=60)
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[-2:] == [
        "interrupted; what is finished is written",
        "{'first': 0, 'second': 130}",
    ]
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    assert (tmp_path / "survey/first.txt").read_text() == "1\n"
    assert (tmp_path / "survey/second.txt").read_text() == "began\nkept\n"
    assert not (tmp_path / "survey/third.txt").exists()


def test_a_report_of_doctor_is_redacted(tmp_path: Path) -> None:
    """Its facts stay; values of variables go."""
    machine = replace(SERVER, environment={"OMP_NUM_THREADS": "8", "LD_PRELOAD": "/home/mallory/x.so"})
    report = DoctorReport(machine, LIBRARIES, QUIET, None, False, ())
    (tmp_path / "doctor.json").write_bytes(encode_json(report))
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "run.svg").write_text("<svg/>")
    assert survey.redact(tmp_path, PEOPLE) == ["bad.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["doctor.json"]
    text = (tmp_path / "doctor.json").read_text()
    assert "mallory" not in text
    assert decode(DoctorReport, json.loads(text)).machine.cpu == SERVER.cpu


def test_serial_numbers_stay_at_home(tmp_path: Path) -> None:
    """A /proc/cpuinfo of some boards ends with one; files that are not named are not read."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nSerial\t\t: 10000000abcdef\nModel\t: Board\n")
    identity = tmp_path / "sys/class/dmi/id"
    identity.mkdir(parents=True)
    (identity / "product_name").write_text("ecs.g8y.large\n")
    (identity / "product_serial").write_text("i-secret\n")
    found = dict(survey.topology(tmp_path))
    assert found == {
        "proc/cpuinfo": "processor\t: 0\nModel\t: Board\n",
        "sys/class/dmi/id/product_name": "ecs.g8y.large\n",
    }


def test_every_command_of_the_survey_is_one_of_the_suite(tmp_path: Path) -> None:
    """Parsed, not run."""
    for arguments in survey.steps(tmp_path, quick=False).values():
        if arguments[0] == "-m":
            make_parser().parse_args(arguments[2:])


def test_a_missing_directory_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after an hour."""
    with pytest.raises(SystemExit) as ended:
        survey.main(["-o", str(tmp_path / "no" / "a.tar.gz")])
    assert ended.value.code == 2
    assert "does not exist" in capsys.readouterr().err

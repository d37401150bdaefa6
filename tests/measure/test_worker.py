"""The worker's own protocol: a job and calls on standard input, messages on standard output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from toy_workloads import RANDOM, mlp

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import worker
from modelzoo.measure.jobs import prepare_job
from modelzoo.records.protocol import PROTOCOL, Answer, Failed, Hello, Preparation, decode_message, encode_job
from modelzoo.version import __version__
from modelzoo.workload.discovery import CHECKOUT

def test_a_worker_introduces_itself_and_answers() -> None:
    """Its protocol and version first, its result last; an impossible setting is part of the result."""
    job = prepare_job(mlp(), (RANDOM.replace(weights="/nonexistent"),))
    command = [sys.executable, "-m", "modelzoo.measure.worker"]
    lines = encode_job(job) + b'\n["prepare"]\n'
    done = subprocess.run(command, input=lines, cwd=CHECKOUT, capture_output=True, check=True)
    first, *_, last = [decode_message(each) for each in done.stdout.splitlines()]
    assert first == Hello(PROTOCOL, __version__)
    assert isinstance(last, Answer)
    (found,) = msgspec.json.decode(last.result, type=list[Preparation])
    assert found.error_kind == "WeightsError"


JOB = encode_job(replace(prepare_job(mlp(), (RANDOM,)), parent=None))


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        *(("job", [line]) for line in (b"", b"{", b'{"type": "conquer"}', b'{"type": "assignment"}', b"[]")),
        *(("call", [JOB, line]) for line in (b"", b"{", b'["conquer"]', b'["__init__", {}, 1]', b'["prepare", 1]', b"[1]")),
    ],
)
def test_what_is_no_job_or_no_call_is_refused(what: str, lines: list[bytes]) -> None:
    """One line that says so, whatever arrives: a method that it does not have, or other arguments."""
    with pytest.raises(UsageError, match=f"the worker was given a {what} that it does not understand: "):
        worker.obey(iter(lines), lambda message: None)


def test_a_long_message_arrives_whole_and_what_is_registered_for_the_end_runs(tmp_path: Path) -> None:
    """A worker ends without taking the interpreter apart, but not before its messages and files are written."""
    left = tmp_path / "left"
    script = f"""
import atexit, pathlib, sys
from modelzoo.measure import worker
from modelzoo.records.protocol import Failed
atexit.register(lambda: pathlib.Path({str(left)!r}).write_text("done"))
def obey(lines, send):
    next(lines)
    print("an unfinished line", end="")
    send(Failed("x" * 3_000_000, "UsageError"))
worker.obey = obey
worker.leave(worker.main())
"""
    done = subprocess.run([sys.executable, "-c", script], input=JOB + b"\n", capture_output=True, check=True)
    assert left.read_text() == "done"
    last = decode_message(done.stdout.splitlines()[-1])
    assert isinstance(last, Failed)
    assert len(last.error) == 3_000_000
    assert done.stderr == b"an unfinished line"

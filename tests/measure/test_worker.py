"""The worker's own protocol: a job on standard input, messages on standard output."""

from __future__ import annotations

import subprocess
import sys

import pytest
from toy_workloads import RANDOM, mlp

from modelzoo.measure.jobs import prepare_job
from modelzoo.records.protocol import PROTOCOL, Failed, Hello, Prepared, decode_message, encode_job
from modelzoo.version import __version__
from modelzoo.workload.discovery import CHECKOUT


def answers(line: bytes) -> tuple[int, list[object]]:
    """Exit code and messages of a worker that is given ``line``."""
    command = [sys.executable, "-m", "modelzoo.measure.worker"]
    done = subprocess.run(command, input=line + b"\n", cwd=CHECKOUT, capture_output=True, check=False)
    return done.returncode, [decode_message(each) for each in done.stdout.splitlines()]


def test_a_worker_introduces_itself_and_answers() -> None:
    """Its protocol and version first, its result last; an impossible setting is part of the result."""
    job = prepare_job(mlp(), (RANDOM.replace(weights="/nonexistent"),), "torch")
    code, messages = answers(encode_job(job))
    assert code == 0
    assert messages[0] == Hello(PROTOCOL, __version__)
    assert isinstance(messages[-1], Prepared)
    assert messages[-1].settings[0].error_kind == "WeightsError"


def test_an_error_of_the_job_is_a_message_and_exit_code_2() -> None:
    """A workload that does not exist."""
    job = prepare_job(mlp(), (RANDOM,), "no-such-engine")
    code, messages = answers(encode_job(job))
    assert code == 2
    assert isinstance(messages[-1], Failed)
    assert messages[-1].error_kind == "UsageError"
    assert "no engine 'no-such-engine'" in messages[-1].error


@pytest.mark.parametrize("line", [b"", b"{", b'{"type": "conquer"}', b'{"type": "measure"}', b"[]"])
def test_a_job_that_is_none_is_refused(line: bytes) -> None:
    """One line that says so, whatever arrives."""
    code, messages = answers(line)
    assert code == 2
    assert isinstance(messages[-1], Failed)
    assert "does not understand" in messages[-1].error

"""What remains of a call that was killed between turns, or whose terminal is gone: nothing."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from fake_docker import FakeDocker
from programs import until
from toy_workloads import MLP

from modelzoo.measure import guardian
from modelzoo.measure.container import remove_leftovers
from modelzoo.measure.guardian import CONTAINER, GROUP, Guardian
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import PROTOCOL, Answer, Hello

SAYS = [encode_json(each).decode() for each in (Hello(PROTOCOL, "0"), Answer(msgspec.Raw(b"true")))]
WORKER = f"""
import subprocess, sys
subprocess.Popen(["sleep", "600"])
for line in {SAYS!r}:
    print(line, flush=True)
sys.stdin.read()
"""
"""A worker that waits to be called again, with a process of its own, as inductor starts some."""
CALL = f"""
import sys, time
from pathlib import Path
from modelzoo.cli.app import guard
from modelzoo.measure.container import ContainerLauncher
from modelzoo.measure.jobs import prepare_environment, prepare_job
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.process import Remote
from modelzoo.setting import Setting
from modelzoo.workload.discovery import load_workload

def call():
    launcher = ContainerLauncher("zoo:a") if sys.argv[1:] else LocalLauncher(worker=("-c", {WORKER!r}))
    job = prepare_job(load_workload(Path({str(MLP)!r})), (Setting(),))
    with Remote(launcher, job, prepare_environment(launcher.environment()), print) as worker:
        assert worker.call("turn", result=bool)
        worker.suspend()
        Path("paused").touch()
        time.sleep(600)
    return 0

sys.exit(guard(call))
"""
"""A call with one worker, in a container if there is an argument."""
ENDS = [signal.SIGKILL, signal.SIGTERM]


def is_left(process: psutil.Process) -> bool:
    """Whether it runs or is suspended; nobody may ask how an orphan ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def ended(folder: Path, *words: str, **options: Any) -> Iterator[psutil.Popen]:
    """Start a call in ``folder``, and wait until it is between turns; after the block, no process of it is left."""
    call = psutil.Popen([sys.executable, "-c", CALL, *words], cwd=folder, **options)
    started: list[psutil.Process] = []
    try:
        until(lambda: (folder / "paused").exists() or call.poll() is not None)
        started = call.children(recursive=True)
        until(lambda: any(each.status() == psutil.STATUS_STOPPED for each in started))
        yield call
        call.wait(timeout=60)
        until(lambda: not any(is_left(each) for each in started))
    finally:
        for each in (call, *started):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        call.wait()


@pytest.mark.parametrize("end", ENDS)
def test_no_process_of_a_suspended_worker_is_left(end: signal.Signals, tmp_path: Path) -> None:
    """Neither the worker nor what it has started, though both are suspended."""
    with ended(tmp_path) as call:
        call.send_signal(end)


@pytest.mark.parametrize("end", ENDS)
def test_no_paused_container_is_left(end: signal.Signals, tmp_path: Path, engine: FakeDocker) -> None:
    """Nor docker's program; the container is resumed before it is removed, as old engines need it."""
    engine.add("zoo:a", worker=WORKER)
    with ended(tmp_path, "image") as call:
        (container,) = engine.containers()
        call.send_signal(end)
    assert engine.containers() == []
    assert engine.calls("unpause") == ([[container]] if end == signal.SIGKILL else [])


def test_a_lost_terminal_ends_a_call(tmp_path: Path) -> None:
    """The kernel and the shell both send SIGHUP, and what is printed has nowhere to go."""
    master, terminal = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)

    def in_a_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    own = {"start_new_session": True, "preexec_fn": in_a_terminal}
    with ended(tmp_path, **streams, **own) as call:
        os.close(terminal)
        os.close(master)
        with suppress(psutil.NoSuchProcess):
            call.send_signal(signal.SIGHUP)
    assert call.returncode == 130


@pytest.fixture
def guarding() -> Iterator[Guardian]:
    """A guardian of its own for this test."""
    found = Guardian()
    yield found
    found.end()


def sleeper() -> subprocess.Popen[bytes]:
    """A process group that is not a worker's."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


def test_what_has_ended_is_left_alone(guarding: Guardian) -> None:
    """Its id may be another group's by now."""
    with sleeper() as kept, sleeper() as other:
        guarding.guard(GROUP, kept.pid)
        guarding.guard(GROUP, other.pid)
        guarding.release(GROUP, kept.pid)
        guarding.end()
        guarding.release(GROUP, other.pid)
        assert other.wait(10) == -signal.SIGKILL
        assert kept.poll() is None
        kept.kill()


def test_a_guardian_that_was_killed_is_replaced(guarding: Guardian) -> None:
    """The next one knows what the first one did."""
    with sleeper() as first, sleeper() as second:
        before = set(psutil.Process().children())
        guarding.guard(GROUP, first.pid)
        (process,) = set(psutil.Process().children()) - before
        until(lambda: guardian.__file__ in process.cmdline())  # is empty while the program is being executed
        process.terminate()  # is ignored, as are the signals of a terminal
        process.kill()
        until(lambda: process.status() == psutil.STATUS_ZOMBIE)
        guarding.release(CONTAINER, "unknown")
        guarding.guard(GROUP, second.pid)
        guarding.end()
        assert (first.wait(10), second.wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)


def test_the_container_of_a_killed_call_is_removed_by_the_next(engine: FakeDocker) -> None:
    """If no guardian did so. Those of callers that are alive or in another namespace stay, and those of images that
    have such a label: it is not called as ours, or names none.
    """
    namespace = Path("/proc/self/ns/pid").readlink()
    labels = {"modelzoo-u": f"{os.getpid()}@{namespace}", "modelzoo-v": f"1000000000@{namespace}"}
    labels |= {"modelzoo-w": "1000000000@pid:[1]", "mine": f"1000000000@{namespace}"}
    labels |= {"modelzoo-x": "abc", "modelzoo-y": "", "modelzoo-z": "\u00b2"}
    with sleeper() as left:
        for name, label in labels.items():
            content = json.dumps({"pid": left.pid, "label": f"modelzoo.caller={label}"})
            (engine.home / "containers" / name).write_text(content)
        remove_leftovers()
        left.wait(10)
    assert engine.containers() == sorted(set(labels) - {"modelzoo-v"})
    assert len(engine.calls("rm")) == 1

"""Containers of calls that were killed together with their guardians."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
from fake_docker import FakeDocker
from places import ROOT
from toy_workloads import RANDOM, mlp

from modelzoo.measure.container import Container, ContainerLauncher, remove_leftovers
from modelzoo.measure.jobs import prepare_job


def container() -> Container:
    """A container whose worker has started."""
    with tempfile.TemporaryFile() as stderr:
        found = ContainerLauncher("zoo:a").start(prepare_job(mlp(), (RANDOM,)), {}, stderr)
    assert found.process.stdin is not None
    assert found.process.stdout is not None
    found.process.stdin.write(b"a job\n")
    found.process.stdin.flush()
    assert found.process.stdout.readline() == b"up\n"
    return found


CALLER = f"""
import sys, time
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}, {str(ROOT / "tests" / "measure")!r}]
from test_leftovers import container
container().suspend()
print("paused", flush=True)
time.sleep(60)
"""
"""Starts a container, pauses it and waits."""
WORKER = "print('up', flush=True); import sys; sys.stdin.read()"
"""Ends with its caller unless it is paused."""


def test_a_paused_container_of_a_killed_call_is_removed_by_the_next(engine: FakeDocker) -> None:
    """If no guardian did so; those of callers that are alive stay."""
    engine.add("zoo:a", worker=WORKER)
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "paused\n"
        [paused] = engine.containers()
        remove_leftovers()
        assert engine.containers() == [paused]
        for guardian in psutil.Process(caller.pid).children():
            if "guardian.py" in guardian.cmdline()[-1]:
                guardian.kill()
        caller.kill()
    assert engine.containers() == [paused]
    mine = container()
    assert engine.containers() == [mine.name]
    mine.kill()
    for stream in (mine.process.stdin, mine.process.stdout):
        assert stream is not None
        stream.close()
    assert engine.containers() == []


def test_callers_of_another_namespace_are_left_alone(engine: FakeDocker) -> None:
    """Their process ids mean nothing here."""
    state = engine.home / "containers" / "modelzoo-x"
    state.write_text('{"pid": 0, "label": "modelzoo.caller=1000000000@pid:[1]"}')
    remove_leftovers()
    assert engine.containers() == ["modelzoo-x"]
    assert engine.calls("rm") == []


def test_labels_that_are_not_ours_are_left_alone(engine: FakeDocker) -> None:
    """An image may have any label; its containers are not called as ours, or do not name a process."""
    namespace = Path("/proc/self/ns/pid").readlink()
    labels = {"modelzoo-x": "abc", "modelzoo-y": "", "modelzoo-z": "\u00b2", "mine": f"1000000000@{namespace}"}
    for name, label in labels.items():
        content = json.dumps({"pid": 0, "label": f"modelzoo.caller={label}"})
        (engine.home / "containers" / name).write_text(content)
    remove_leftovers()
    assert engine.containers() == sorted(labels)
    assert engine.calls("rm") == []


RUNNER = f"""
import os, sys, time
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}, {str(ROOT / "tests" / "measure")!r}]
from fake_docker import installed
from test_leftovers import WORKER, container
with installed(Path(sys.argv[1])) as engine:
    os.environ["PATH"] = str(engine.home) + os.pathsep + os.environ["PATH"]
    engine.add("zoo:a", worker=WORKER)
    container().suspend()
    print("paused", flush=True)
    time.sleep(60)
"""
"""A test run in the middle of a test whose container is paused."""


def test_a_test_run_that_is_killed_leaves_no_process_in_a_container(tmp_path: Path) -> None:
    """Although its guardian is killed as well, as by a time-out that ends all that it finds."""
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "engine")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "paused\n"
        (state,) = (tmp_path / "engine" / "containers").iterdir()
        inside = psutil.Process(json.loads(state.read_text())["pid"])
        assert inside.status() == psutil.STATUS_STOPPED
        for guardian in psutil.Process(runner.pid).children():
            if "guardian.py" in guardian.cmdline()[-1]:
                guardian.kill()
        runner.kill()
    _, left = psutil.wait_procs([inside], timeout=10)
    for each in left:
        each.kill()
    assert not left

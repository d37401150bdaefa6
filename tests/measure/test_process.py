"""Worker processes: messages, as they and their parent see them, and every way in which they end badly."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from toy_workloads import RANDOM, SHORT, mlp, numpy_setting, odd_numpy, runs_of

from modelzoo import __version__
from modelzoo.errors import EnvironmentProblem, InputError, UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.measure import process, worker
from modelzoo.measure.jobs import Request, prepare_environment, prepare_job
from modelzoo.measure.launcher import LocalLauncher, suite_path
from modelzoo.measure.process import Remote
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import (
    PROTOCOL,
    Answer,
    Failed,
    Hello,
    Message,
    Preparation,
    Progress,
    decode_message,
    encode_job,
)

pytestmark = pytest.mark.usefixtures("numpy_engine")


def call(launcher: LocalLauncher, on_message: Callable[[Message], None] = print) -> tuple[Preparation, ...]:
    """What a worker answers that resolves settings."""
    job = prepare_job(mlp(), (RANDOM,))
    with Remote(launcher, job, prepare_environment(), on_message) as worker:
        return worker.call("prepare", result=tuple[Preparation, ...])


def test_a_worker_runs_in_a_strange_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sitecustomize`` prints before the worker has taken standard output for itself, the user id is not in passwd,
    the encoding lacks what a model prints, and lines of libraries look like messages.
    """
    strange = "import pwd\npwd.getpwuid = {}.__getitem__\nprint('hello')\nprint('no line break', end='')\n"
    (tmp_path / "sitecustomize.py").write_text(strange)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    messages = """print('{"type": "answer"}'); import sys; sys.stderr.write('{"type": "failed"}')"""
    build = f'{messages}; os.write(1, b"x" * 100000)'
    work = odd_numpy(tmp_path / "odd", build, "import getpass; print('→', getpass.getuser())")
    (run,) = runs_of(Request(work, (numpy_setting(work),), SHORT, audit=False))
    assert (run.error, len(run.steady)) == (None, 3)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("os.kill(os.getpid(), 9)", "the worker process was ended by SIGKILL (out of memory? try a smaller --batch)"),
        # The end of what it printed, without what a terminal would obey.
        (
            "os.write(2, b'x' * 100_000_000 + b'\\n\\x1b[2Jlast\\n'); os._exit(3)",
            "the worker process ended with code 3: \\x1b[2Jlast",
        ),
    ],
)
def test_a_worker_that_ends_gives_one_line(line: str, error: str) -> None:
    """By a signal, or with a code."""
    with pytest.raises(WorkerError) as caught:
        call(LocalLauncher(worker=("-c", f"import os; {line}")))
    assert str(caught.value) == error


def test_a_call_of_a_worker_that_has_died_is_no_error() -> None:
    """Whoever waits for its answer learns why."""
    launcher, job = LocalLauncher(worker=("-c", "")), prepare_job(mlp(), (RANDOM,))
    with Remote(launcher, job, prepare_environment(), print) as worker:
        assert select.select([worker], [], [], 60)[0] == [worker]
        worker.send("prepare")
        with pytest.raises(WorkerError, match="ended with code 0"):
            worker.wait(tuple[Preparation, ...])
        worker.send("prepare")


FAILING = """
from modelzoo.measure import worker
def obey(lines, send):
    {line}
worker.obey = obey
worker.leave(worker.main())
"""


@pytest.mark.parametrize(
    ("line", "error", "kind"),
    [
        (
            "raise RuntimeError('can\\'t allocate memory: you tried')",
            "out of memory; use a smaller --batch",
            WorkerError,
        ),
        ("raise MemoryError", "out of memory; use a smaller --batch", WorkerError),
        (
            "from modelzoo.errors import InputError; raise InputError('no such image: x')",
            "no such image: x",
            InputError,
        ),
    ],
)
def test_a_worker_that_fails_gives_one_line(line: str, error: str, kind: type[Exception]) -> None:
    """An error of the suite keeps its class."""
    with pytest.raises(kind) as caught:
        call(LocalLauncher(worker=("-c", FAILING.format(line=line))))
    assert (type(caught.value), str(caught.value)) == (kind, error)


def test_a_crash_in_the_workload_is_one_line(tmp_path: Path) -> None:
    """Not the traceback, here of one whose inputs fail while it prepares."""
    work = odd_numpy(tmp_path / "odd", inputs="raise ArithmeticError('seven is not eight')")
    (run,) = runs_of(Request(work, (numpy_setting(work).replace(input="/"),), SHORT, audit=False))
    place = f"{work.directory / 'workload.py'}, line 11"
    assert run.error == f"{place}: ArithmeticError: seven is not eight; correct it there"
    assert run.error_kind == "UsageError"


def test_torch_says_of_a_failed_allocation_what_workers_look_for() -> None:
    """It is a RuntimeError like any other."""
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        torch.empty(10**15)


def test_without_temporary_files_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose files are all read-only."""

    def fail() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    message = "no temporary file can be written: No usable temporary directory found; name another directory with TMP"
    with pytest.raises(EnvironmentProblem, match=message):
        call(LocalLauncher())


BUILD = encode_json(Progress("build")).decode()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (BUILD[:-3], "the worker process ended with code 0: no output"),
        (
            '{"type":"progress","phase":null}\n',
            "the worker sent a message that cannot be read: Expected `str`, got `null`",
        ),
        (
            encode_json(Answer(msgspec.Raw(b"7"))).decode() + "\n",
            "the worker sent an answer that cannot be read: Expected `array`, got `int`",
        ),
        (2 * (encode_json(Answer(msgspec.Raw(b"[]"))).decode() + "\n"), "an answer that it was not asked for"),
        ("x" * (2 << 20), "the worker sent a message of more than 1 MiB"),
    ],
    ids=["incomplete", "unreadable", "other", "surplus", "endless"],
)
def test_what_is_no_message_is_an_error(
    written: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line is what a killed worker leaves; a line without an end would fill the memory of this machine."""
    monkeypatch.setattr(process, "LONGEST", 1 << 20)
    (tmp_path / "answer").write_text(f"{BUILD}\n{written}")
    launcher = LocalLauncher(worker=("-c", f"input(); print(open({str(tmp_path / 'answer')!r}).read(), end='')"))
    found: list[Message] = []
    with pytest.raises(WorkerError, match=re.escape(expected)):
        call(launcher, found.append)
    assert found == [Progress("build")]


def test_a_path_in_another_encoding_is_refused_in_one_line() -> None:
    """JSON cannot represent it, so the worker would look for another path."""
    request = Request(mlp(), (RANDOM.replace(input="/tmp/\udcff.jpg"),), SHORT)
    (run,) = runs_of(request)
    assert (run.error, run.error_kind) == (r"the path '/tmp/\udcff.jpg' is not UTF-8 text; rename it", "UsageError")


def test_a_suite_of_another_protocol_is_refused_in_one_line() -> None:
    """Sides whose suites would misunderstand each other are not compared."""
    hello = encode_json(Hello(PROTOCOL + 1, "9.9")).decode()
    launcher = LocalLauncher(worker=("-c", f"input(); print('''{hello}''')"))
    expected = (
        f"the suite in {sys.executable} is version 9.9 with protocol {PROTOCOL + 1}, this one {__version__} with "
        f"protocol {PROTOCOL}: use the same version of the suite on both sides"
    )
    with pytest.raises(EnvironmentProblem, match=re.escape(expected)):
        call(launcher)


LEAVES = """
import subprocess
from pathlib import Path
Path("pid").write_text(str(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL).pid))
"""


def test_a_process_group_is_ended_while_its_id_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the process that leads it was waited for, it could be another group's; what it left is ended, too."""
    monkeypatch.chdir(tmp_path)
    killpg = os.killpg

    def checked(group: int, number: int) -> None:
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises if it was waited for
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", checked)
    launcher = LocalLauncher(worker=("-c", LEAVES))
    with pytest.raises(WorkerError, match="ended with code 0"):
        call(launcher)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "pid").read_text())).wait(10)


def test_a_worker_introduces_itself_and_answers(tmp_path: Path) -> None:
    """Its protocol and version first, its result last; an impossible setting is part of the result.

    What lies in the current directory by chance is not imported in place of what is installed.
    """
    (tmp_path / "torch.py").write_text("raise SystemExit('a file of the current directory')")
    job = prepare_job(mlp(), (RANDOM.replace(weights="/nonexistent"),))
    command = [sys.executable, "-m", "modelzoo.measure.worker"]
    lines = encode_job(job) + b'\n["prepare"]\n'
    there = {**os.environ, **suite_path(sys.executable, {})}
    done = subprocess.run(command, input=lines, cwd=tmp_path, env=there, capture_output=True, check=True)
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
        *(("call", [JOB, line]) for line in (b"", b"{", b'["conquer"]', b'["__init__", {}, 1]', b'["prepare", 1]')),
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

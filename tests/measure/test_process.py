"""Worker processes as their parent sees them: messages, and every way in which they end badly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from toy_workloads import RANDOM, SHORT, mlp, numpy_setting, odd, odd_numpy, runs_of

from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.measure import process
from modelzoo.measure.jobs import Request, prepare_environment, prepare_job
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.process import Remote
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import PROTOCOL, Answer, Hello, Job, Message, Preparation, Progress
from modelzoo.records.run import RunReport
from modelzoo.version import __version__
from modelzoo.workload import Workload
from modelzoo.workload.discovery import CHECKOUT

pytestmark = pytest.mark.usefixtures("numpy_engine")


def call(
    launcher: LocalLauncher, job: Job, environment: Mapping[str, str], on_message: Callable[[Message], None] = print
) -> tuple[Preparation, ...]:
    """What a worker answers that resolves settings."""
    with Remote(launcher, job, environment, on_message) as worker:
        return worker.call("prepare", result=tuple[Preparation, ...])


def measured(work: Workload) -> RunReport:
    """Prepare and measure in real workers."""
    (run,) = runs_of(Request(work, (numpy_setting(work),), SHORT, audit=False))
    assert run.error is None, run.error
    assert run.report is not None
    return run.report


def failure(work: Workload) -> tuple[str, str]:
    """Error and its kind of a run whose inputs must fail; with an input named, its preparation fails."""
    request = Request(work, (numpy_setting(work).replace(input="/"),), SHORT, audit=False)
    (run,) = runs_of(request)
    assert run.report is None
    assert run.error is not None
    assert run.error_kind is not None
    assert "\n" not in run.error
    return run.error, run.error_kind


def test_what_libraries_print_is_not_taken_for_messages(tmp_path: Path) -> None:
    """Lines on stdout and stderr, also ones that look like messages, disturb nothing."""
    messages = """print('{"type": "answer"}'); import sys; sys.stderr.write('{"type": "failed"}')"""
    noise = f'{messages}; os.write(1, b"x" * 100000)'
    report = measured(odd_numpy(tmp_path / "odd", build=noise))
    assert report.workload == "odd"
    assert report.timing is not None
    assert len(report.timing.steady) == 3


def test_what_the_interpreter_prints_when_it_starts_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sitecustomize`` prints before the worker has taken standard output for itself."""
    (tmp_path / "sitecustomize.py").write_text("print('hello')\nprint('no line break', end='')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    assert measured(odd_numpy(tmp_path / "odd")).workload == "odd"


def test_a_worker_has_a_user_and_prints_every_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a user id that is not in passwd, and with an encoding that lacks what a model prints."""
    (tmp_path / "sitecustomize.py").write_text("import pwd\npwd.getpwuid = {}.__getitem__\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    work = odd_numpy(tmp_path / "odd", inputs="import getpass; print('→', getpass.getuser())")
    assert measured(work).workload == "odd"


def test_without_temporary_files_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose files are all read-only."""

    def fail() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    message = (
        "no temporary file can be written: No usable temporary directory found; name another directory with TMPDIR"
    )
    with pytest.raises(EnvironmentProblem, match=message):
        call(LocalLauncher(), prepare_job(mlp(), (RANDOM,)), os.environ)


def test_a_killed_worker_is_named_by_its_signal(tmp_path: Path) -> None:
    """SIGKILL most often means out of memory."""
    error, kind = failure(odd_numpy(tmp_path / "odd", inputs="os.kill(os.getpid(), 9)"))
    assert error == "the worker process was ended by SIGKILL (out of memory? try a smaller --batch)"
    assert kind == "WorkerError"


def test_a_crash_gives_its_last_line(tmp_path: Path) -> None:
    """An unforeseen exception: one line of it, not the traceback."""
    error, kind = failure(odd_numpy(tmp_path / "odd", inputs="raise ArithmeticError('seven is not eight')"))
    place = f"{tmp_path / 'odd' / 'workload.py'}, line 11"
    assert error == f"{place}: ArithmeticError: seven is not eight; correct it there"
    assert kind == "UsageError"


@pytest.mark.parametrize("line", ["import torch; torch.empty(10**15)", "raise MemoryError"])
def test_out_of_memory_is_reported_as_such(line: str, tmp_path: Path) -> None:
    """A failed allocation of torch's and one of Python's give the same hint."""
    error, kind = failure(odd_numpy(tmp_path / "odd", inputs=line))
    assert (error, kind) == ("out of memory; use a smaller --batch", "WorkerError")


def test_errors_keep_their_class_across_the_pipe(tmp_path: Path) -> None:
    """A worker's InputError is an InputError in the parent, with the same message."""
    line = "from modelzoo.errors import InputError; raise InputError('no such image: x')"
    assert failure(odd_numpy(tmp_path / "odd", inputs=line)) == ("no such image: x", "InputError")


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
        call(launcher, prepare_job(mlp(), (RANDOM,)), os.environ, found.append)
    assert found == [Progress("build")]


def test_only_the_end_of_what_a_worker_prints_is_read(tmp_path: Path) -> None:
    """However much it is; the last line is shown without what a terminal would obey."""
    lines = "os.write(2, b'x' * 100_000_000 + b'\\n\\x1b[2Jlast\\n'); os._exit(3)"
    error, _ = failure(odd_numpy(tmp_path / "odd", inputs=lines))
    assert error == "the worker process ended with code 3: \\x1b[2Jlast"


def test_a_path_in_another_encoding_is_refused_in_one_line() -> None:
    """JSON cannot represent it, so the worker would look for another path."""
    request = Request(mlp(), (RANDOM.replace(input="/tmp/\udcff.jpg"),), SHORT)
    (run,) = runs_of(request)
    assert (run.error, run.error_kind) == (r"the path '/tmp/\udcff.jpg' is not UTF-8 text; rename it", "UsageError")


def test_a_suite_of_another_protocol_is_refused_in_one_line(tmp_path: Path) -> None:
    """Sides whose suites would misunderstand each other are not compared."""
    job = prepare_job(odd(tmp_path / "odd"), (RANDOM,))
    hello = encode_json(Hello(PROTOCOL + 1, "9.9")).decode()
    launcher = LocalLauncher(worker=("-c", f"input(); print('''{hello}''')"))
    expected = (
        f"the suite in {sys.executable} is version 9.9 with protocol {PROTOCOL + 1}, this one {__version__} with "
        f"protocol {PROTOCOL}: use the same version of the suite on both sides"
    )
    with pytest.raises(EnvironmentProblem, match=re.escape(expected)):
        call(launcher, job, prepare_environment().variables)


def test_an_interrupted_parent_ends_its_worker(tmp_path: Path) -> None:
    """Ctrl-C while a worker runs is passed on, and no process is left behind."""
    job = prepare_job(odd(tmp_path / "odd", inputs="import time; time.sleep(60)"), (RANDOM.replace(input="/"),))

    def interrupt(message: Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(LocalLauncher(), job, prepare_environment().variables, interrupt)
    commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    assert not [command for command in commands if "modelzoo.measure.worker" in command]


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
        call(launcher, prepare_job(mlp(), (RANDOM,)), os.environ)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "pid").read_text())).wait(10)


PARENT = """
import sys
from pathlib import Path
from modelzoo.measure.jobs import prepare_environment, prepare_job
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.process import Remote
from modelzoo.setting import Setting
from modelzoo.workload.discovery import load_workload
job = prepare_job(load_workload(Path(sys.argv[1])), (Setting(input="/"),))
show = lambda message: print(message, flush=True)
with Remote(LocalLauncher(), job, prepare_environment().variables, show) as worker:
    worker.call("prepare", result=list)
"""


def test_a_killed_parent_takes_its_worker_along(tmp_path: Path) -> None:
    """kill -9 on the command leaves no worker that goes on loading the machine."""
    work = odd(tmp_path / "odd", inputs="import time; time.sleep(60)")
    command = [sys.executable, "-c", PARENT, str(work.directory)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHECKOUT, env=os.environ)
    try:
        assert parent.stdout is not None
        assert b"weights" in parent.stdout.readline()
        children = psutil.Process(parent.pid).children()
        assert len(children) == 2, "the worker and the guardian"
        parent.kill()
        gone, alive = psutil.wait_procs(children, timeout=10)
        assert not alive, gone
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()

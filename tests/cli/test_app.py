"""The commands as a user runs them: what they print, how they end, and one line for every mistake."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import torch
from calls import called
from fake_runs import make, result_of
from PIL import Image
from programs import call, until
from toy_workloads import NUMPY_ENGINE, odd_numpy

from modelzoo.cli import app
from modelzoo.cli.run import exit_code
from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.run import ValidityEntry
from modelzoo.results import schema, store, summary
from modelzoo.workload import discovery

ROOT = discovery.CHECKOUT
MLP = str(ROOT / "examples" / "mlp")
STORED = str(ROOT / "tests" / "data" / "results" / "mlp.json")
MODELZOO = [sys.executable, "-m", "modelzoo"]
TARGET = re.compile(r"\[TARGET\] \S+ Time [0-9.]+")
SHORT = ["--processes", "1", "--warmup", "1", "--iterations", "3", "--no-audit", "--threads", "1"]
SCHEMA = schema.result_schema()


def run(command: Sequence[str], folder: Path = ROOT, /, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with the tests' environment and ``variables``."""
    environ = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)


def valid(path: Path) -> dict[str, Any]:
    """A result file's content, after holding it against the schema."""
    data: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(data, SCHEMA)
    return data


def test_a_whole_call(tmp_path: Path) -> None:
    """Two precisions, interleaved, as in a service without standard input: stdout has the TARGET lines alone."""
    path = tmp_path / "with space" / "r.json"
    path.parent.mkdir()
    words = [*MODELZOO, "run", MLP, "--processes", "2", "--iterations", "6", "--threads", "1", "--json", str(path)]
    done = run(["bash", "-c", f"{shlex.join(words)} <&-"])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["mlp", "mlp-bf16"]
    assert all(TARGET.fullmatch(line) for line in lines)
    data = valid(path)
    order = [(run["round"], run["requested"]["precision"]) for run in data["runs"]]
    assert order == [(0, "fp32"), (0, "bf16"), (1, "bf16"), (1, "fp32")]
    runs = store.read(path).runs
    assert [len(run.steady) for run in runs] == [6] * 4
    seen = [run["report"]["observed"] for run in data["runs"]]
    # Where no library logs products in bf16, other processes have no kernels to compare.
    audited = [True, True, not seen[1]["kernels"], False]
    assert [each["evidence"] is not None for each in seen] == audited, "one process of each setting is audited in full"
    assert seen[0]["kernels"] == seen[3]["kernels"] is not None
    assert seen[1]["kernels"] == seen[2]["kernels"]
    assert f"result: {path}" in done.stderr
    for words in ("latency", "speedup", "; kernels ", "warning:", "mlp fp32, process 1 of 2: cold"):
        assert words in " ".join(done.stderr.split())
    assert "\x1b" not in done.stderr, "stderr is no terminal here"


SLEEPY = "import time; return lambda rows, weight: (time.sleep(0.02), rows @ weight)[1]"


def start(path: Path, *options: object) -> subprocess.Popen[str]:
    """A call with many processes, which start without torch, that is going to be interrupted."""
    work = odd_numpy(path.parent / "odd", build=SLEEPY)
    words = ["--engine", NUMPY_ENGINE, "--weights", work.directory / "weights.npz", "--precision", "fp32"]
    words += ["--processes", "5", "--warmup", "1", "--max-seconds", "3", "--no-audit", "--threads", "1"]
    return call("run", work.directory, *words, "--json", path, *options)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "modelzoo.measure.worker" in child.cmdline()]
    except psutil.NoSuchProcess:
        return []


def finished(path: Path) -> int:
    """How many runs the stored result holds; every state on disk is whole JSON."""
    return len(json.loads(path.read_text())["runs"]) if path.exists() else 0


@pytest.mark.usefixtures("numpy_engine")
def test_a_killed_worker_loses_only_its_run(tmp_path: Path) -> None:
    """kill -9 on a worker: valid JSON of the other run, the loss is named, exit code 2."""
    path = tmp_path / "r.json"
    process = start(path, "--processes", "2", "--iterations", "150")
    (prepares,) = until(lambda: workers_of(process))
    (measures,) = until(lambda: [each for each in workers_of(process) if each != prepares])
    measures.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    valid(path)
    first, second = store.read(path).runs
    assert first.report is None
    assert (first.error or "").startswith("the worker process was ended by SIGKILL")
    assert second.steady
    assert TARGET.fullmatch(out.strip())
    assert re.search(r"failed: odd fp32 \S+: the worker process was ended by SIGKILL", err)


@pytest.mark.usefixtures("numpy_engine")
def test_an_ended_call_keeps_what_is_finished(tmp_path: Path) -> None:
    """By what a time limit sends: the finished runs are shown and stored, and no worker is left."""
    path = tmp_path / "r.json"
    process = start(path)
    until(lambda: finished(path) == 1)
    (worker,) = until(lambda: workers_of(process))
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"modelzoo: interrupted; 1 finished runs are in {path}" in err
    assert TARGET.fullmatch(out.strip())
    valid(path)
    (only,) = store.read(path).runs
    assert only.steady
    # One that was just being started when the signal came ends by itself, once it sees its parent gone.
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert not alive


@pytest.mark.parametrize("options", [[], ["--engine", "onnxruntime"]])
def test_a_torch_that_is_too_old_is_one_line(options: list[str], tmp_path: Path) -> None:
    """Also where it only makes the model that another engine runs."""
    (tmp_path / "torch.py").write_text('__version__ = "2.5.1+cpu"\n')
    done = run([*MODELZOO, "run", MLP, *options], PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "torch 2.5.1+cpu is too old: this suite needs 2.6 or newer; run pip install --upgrade torch" in done.stderr


def test_without_a_command_help_is_shown() -> None:
    """On stdout, as with --help."""
    code, out, err = called()
    assert (code, err, out.startswith("usage: modelzoo ")) == (0, "", True)


def test_mistakes_that_the_worker_finds_are_named(tmp_path: Path) -> None:
    """Each setting has its own."""
    empty, text = tmp_path / "empty", tmp_path / "text.txt"
    empty.mkdir()
    text.write_text("hello world")
    expected = {
        "weights=/nonexistent": "--weights /nonexistent: it does not exist; give auto, pretrained",
        f"weights={empty}": "it holds no weights",
        f"weights={text}": "cannot be read as weights: it is not a checkpoint",
        "weights=pretrained": "is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set",
        f"input={text}": "is not an image that Pillow can read",
        f"input={empty}": "no images in",
        "device=cuda:9": "--device cuda",
        "device=tpu": "--device tpu: there is no such kind of device",
    }
    path = tmp_path / "r.json"
    settings = [word for setting in expected for word in ("--setting", setting)]
    done = run([*MODELZOO, "run", "resnet50", "--weights", "random", *settings, *SHORT, "--json", str(path)])
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    errors = [run.error or "" for run in sorted(store.read(path).runs, key=lambda run: run.group)]
    assert all(message in error for message, error in zip(expected.values(), errors, strict=True))
    assert done.stderr.count("failed: resnet50") == len(expected)


def test_a_file_that_does_not_fit_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint of another model, a picture for BERT, an empty MODELZOO_WEIGHTS: there is no table."""
    torch.save({"other.weight": torch.ones(3)}, tmp_path / "foreign.pt")
    Image.new("RGB", (64, 48), "red").save(tmp_path / "red.png")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path / "none"))
    for words, message in (
        ((MLP, "--weights", tmp_path / "foreign.pt"), r"foreign\.pt does not fit the model: \d+ tensors missing .*1 "),
        (("bert", "--weights", "random", "--input", tmp_path / "red.png"), r"red\.png is not UTF-8 text; give a text"),
        (("resnet50",), "MODELZOO_WEIGHTS="),
    ):
        code, out, err = called("run", *words, "--precision", "fp32", *SHORT)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert re.search(message, err)


HELP = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", sorted({"torch", "numpy", "torchvision", "transformers", "matplotlib"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "words",
    [
        *(["--help"], ["run", "--help"], ["list"], ["report", STORED], ["compare", STORED, STORED]),
        ["report", STORED, "-o", "page.html"],  # its plots need the others
        ["bert/performance.py", "--help"],
    ],
)
def test_a_command_that_measures_nothing_needs_no_torch(words: list[str], tmp_path: Path) -> None:
    """Nor anything else that takes long to import; it answers at once, and where nothing is measured."""
    script = [] if words[0].endswith(".py") else ["modelzoo/__main__.py"]
    first, *rest = [*script, *words]
    done = run([sys.executable, "-c", HELP, str(ROOT / first), *rest], tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"LOADED {['matplotlib', 'numpy'] if '-o' in words else []}"


FULL = "modelzoo: error: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize(
    ("redirection", "code", "said"), [("| head -0", 141, ""), (">&-", 0, ""), (">/dev/full", 2, FULL)]
)
def test_a_stdout_that_cannot_be_written_is_no_traceback(redirection: str, code: int, said: str) -> None:
    """Its reader has ended, it is closed from the start, or its disk is full."""
    words = shlex.join([*MODELZOO, "compare", STORED, STORED])
    done = run(["bash", "-c", f"set -o pipefail; {words} {redirection}"])
    assert (done.returncode, done.stderr) == (code, said)


def test_with_stderr_closed_errors_do_not_go_to_stdout() -> None:
    """stdout is for scripts, whatever happens."""
    done = run(["bash", "-c", f"{sys.executable} -m modelzoo run nosuch 2>&-"])
    assert (done.returncode, done.stdout) == (2, "")


def test_the_variable_route(tmp_path: Path) -> None:
    """``DNNL_DEFAULT_FPMATH_MODE=BF16 python3 performance.py --bf16``: fast math, named in table and result."""
    path = tmp_path / "r.json"
    command = [sys.executable, "performance.py", "--bf16", *SHORT, "--json", str(path)]
    done = run(command, ROOT / "examples/mlp", DNNL_DEFAULT_FPMATH_MODE="BF16")
    assert done.returncode == 0, done.stderr
    assert TARGET.fullmatch(done.stdout.strip())
    report = valid(path)["runs"][0]["report"]
    assert report["prepared"]["setting"]["bf16_method"] == "fastmath"
    assert report["provenance"]["environment"]["applied"] == {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}
    assert "bf16 by fastmath" in done.stderr


DEFECT = r"Traceback.*\nmodelzoo: error: this is a defect of modelzoo; please report it with the lines above\n"


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (WorkerError("it died"), "modelzoo: error: it died\n"),
        (ModuleNotFoundError("No module named 'rich'", name="rich"), r".* 'rich'[^\n]*\./scripts/run[^\n]*\n"),
        (ModuleNotFoundError("No module named 'modelzoo.x'", name="modelzoo.x"), DEFECT),
        (KeyError("x"), DEFECT),
        (OSError(5, "x"), DEFECT),
    ],
)
def test_every_error_ends_with_2(error: Exception, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """1 means NOT VALID, which no defect is. A module of the suite is no package that is missing."""

    def do() -> int:
        raise error

    assert app.guard(do) == 2
    assert re.fullmatch(printed, capsys.readouterr().err, re.DOTALL)


ENDED = """
import os, signal, sys, time
from modelzoo.cli.app import guard

number, before = signal.Signals[sys.argv[1]], signal.Handlers[sys.argv[2]]
signal.signal(number, before)

def do():
    os.kill(os.getpid(), number)
    time.sleep(0.1)
    return 0

print(guard(do), signal.getsignal(number).name)
"""


@pytest.mark.parametrize(
    ("number", "before", "printed"),
    [
        ("SIGTERM", "SIG_DFL", "130 SIG_DFL\n"),
        ("SIGHUP", "SIG_DFL", "130 SIG_IGN\n"),
        ("SIGHUP", "SIG_IGN", "0 SIG_IGN\n"),
    ],
)
def test_a_request_to_end_is_handled_like_ctrl_c(number: str, before: str, printed: str) -> None:
    """So that what was started is ended too; not if it is ignored, as under nohup. In a process of its own."""
    done = run([sys.executable, "-c", ENDED, number, before])
    assert (done.returncode, done.stdout) == (0, printed)
    assert done.stderr == ("modelzoo: interrupted\n" if printed.startswith("130") else "")


def test_output_never_fails_for_want_of_a_character_or_of_room() -> None:
    """A workload's name may have any character, and a log's disk may be full; a traceback would hide the verdict."""
    call = "print('bär → ok', file=sys.std%s) or 0"
    said = f"from modelzoo.cli.app import guard; import sys; sys.exit(guard(lambda: {call}))"
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
    for stream in ("out", "err"):
        command = [sys.executable, "-c", said % stream]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, check=True)
        assert done.stdout + done.stderr == rb"b\xe4r \u2192 ok" + b"\n"
    with Path("/dev/full").open("w") as full:
        subprocess.run([sys.executable, "-c", said % "err"], stderr=full, cwd=ROOT, timeout=60, check=True)


@pytest.mark.parametrize(
    ("error_kind", "judged", "strict", "code"),
    [
        (None, 0, False, 0),
        (None, 0, True, 1),
        (None, 1, False, 1),
        (None, 2, True, 2),
        ("WorkerError", 1, True, 2),
        ("UsageError", 0, False, 2),
    ],
)
def test_the_exit_code_of_a_session(error_kind: str | None, judged: int, strict: bool, code: int) -> None:
    """1 is NOT VALID or ``--strict``, here with kernels that were not audited; a process that failed is 2."""
    ran = make([0.1] * 5)
    rows = summary.rows(result_of(ran))
    failed = replace(ran, error=error_kind, error_kind=error_kind)
    result = result_of(failed).plus(ValidityEntry(ran.workload, 0, ran.requested, exit_code=judged))
    assert exit_code(result, rows, strict) == code

"""The commands as a user runs them: what they print, how they end, and one line for every mistake."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from modelzoo.cli import app as cli
from modelzoo.cli import setting_options
from modelzoo.cli.parser import Parser
from modelzoo.results import schema, store
from modelzoo.setting import choices
from modelzoo.workload import discovery

ROOT = discovery.CHECKOUT
MLP = str(ROOT / "examples" / "mlp")
MODELZOO = [sys.executable, "-m", "modelzoo"]
TARGET = re.compile(r"\[TARGET\] \S+ Time [0-9.]+")
SHORT = ["--processes", "1", "--warmup", "1", "--iterations", "3", "--no-audit", "--threads", "1"]
SCHEMA = schema.result_schema()


def run(command: Sequence[str], folder: Path = ROOT, /, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with the tests' environment and ``variables``."""
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False
    )


def performance(name: str) -> list[str]:
    """The command of a workload's own script, to be run in its directory."""
    return [sys.executable, str(ROOT / name / "performance.py")]


def only_line(done: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """The single line on stderr of a command that failed with ``code`` and printed nothing else."""
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    return done.stderr.strip()


def valid(path: Path) -> dict[str, Any]:
    """A result file's content, after holding it against the schema."""
    data: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(data, SCHEMA)
    return data


# A whole call


def test_a_whole_call(tmp_path: Path) -> None:
    """Two precisions, interleaved: stdout has the TARGET lines alone, the JSON fits its schema and holds all.

    Standard input is closed, as in a service.
    """
    path = tmp_path / "with space" / "r.json"
    path.parent.mkdir()
    words = [*MODELZOO, "run", MLP, "--processes", "2", "--iterations", "6", "--threads", "1", "--json", str(path)]
    done = run(["bash", "-c", f"{shlex.join(words)} <&-"])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["mlp", "mlp-bf16"]
    assert all(TARGET.fullmatch(line) for line in lines)
    data = valid(path)
    assert [(run["round"], run["requested"]["precision"]) for run in data["runs"]] == [
        (0, "fp32"),
        (0, "bf16"),
        (1, "bf16"),
        (1, "fp32"),
    ]
    runs = store.read(path).runs
    assert [len(run.steady) for run in runs] == [6] * 4
    seen = [run["report"]["observed"] for run in data["runs"]]
    # Where no library logs products in bf16, other processes have no kernels to compare.
    audited = [True, True, not seen[1]["kernels"], False]
    assert [each["evidence"] is not None for each in seen] == audited, "one process of each setting is audited in full"
    assert seen[0]["kernels"] == seen[3]["kernels"] is not None
    assert seen[1]["kernels"] == seen[2]["kernels"]
    assert [run.group for run in runs] == [0, 1, 1, 0]
    assert f"result: {path}" in done.stderr
    for words in ("latency", "speedup", "; kernels ", "warning:", "mlp fp32, process 1 of 2: cold"):
        assert words in done.stderr
    assert "\x1b" not in done.stderr, "stderr is no terminal here"


REFUSING = """
from modelzoo.workload.declaration import Inputs, Workload

def build(options):
    import torch
    class Inverse(torch.nn.Linear):
        def forward(self, x):
            return torch.linalg.inv(x)
    return Inverse(1, 1)

def inputs(request):
    import torch
    return Inputs((torch.eye(4),), ("a matrix",))

WORKLOAD = Workload("refusing", "what has no bf16 kernel", "matrices", build, inputs)
"""


def test_a_failed_setting_does_not_stop_the_others(tmp_path: Path) -> None:
    """An impossible setting is named and stored; the other runs; the exit code says that one failed."""
    (tmp_path / "refusing").mkdir()
    (tmp_path / "refusing" / "workload.py").write_text(REFUSING)
    path = tmp_path / "r.json"
    command = [*MODELZOO, "run", str(tmp_path / "refusing"), "--bf16=cast", "--precision", "fp32,bf16", *SHORT]
    done = run([*command, "--json", str(path)])
    assert done.returncode == 2, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("[TARGET] refusing Time ")
    assert "failed: refusing bf16=cast: refusing cannot run with bf16=cast: " in done.stderr
    failed, good = valid(path)["runs"]  # in the order in which they ended
    assert good["error"] is None
    assert (failed["report"], failed["error_kind"]) == (None, "UsageError")


# Ends in the middle


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    """A call with many processes that is going to be interrupted."""
    command = [*MODELZOO, "run", MLP, "--processes", "5", "--warmup", "1", "--max-seconds", "3", "--no-audit"]
    command += ["--threads", "1", "--precision", "fp32", "--json", str(path), *options]
    # A shell's background job ignores Ctrl-C, and so would what it starts.
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Poll until ``condition`` gives something; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers that this command runs now, oldest first."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in children if "modelzoo.measure.worker" in child.cmdline()]
        return sorted(workers, key=lambda child: (child.create_time(), child.pid))
    except psutil.NoSuchProcess:
        return []


def finished(path: Path) -> int:
    """How many runs the stored result holds; every state on disk is whole JSON."""
    return len(json.loads(path.read_text())["runs"]) if path.exists() else 0


def test_a_killed_worker_loses_only_its_run(tmp_path: Path) -> None:
    """kill -9 on a worker: valid JSON of the other run, the loss is named, exit code 2."""
    path = tmp_path / "r.json"
    process = start(path, "--processes", "2", "--iterations", "2000")
    (prepares,) = wait_for(lambda: workers_of(process))
    (measures,) = wait_for(lambda: [each for each in workers_of(process) if each != prepares])
    measures.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    valid(path)
    first, second = store.read(path).runs
    assert first.report is None
    assert (first.error or "").startswith("the worker process was ended by SIGKILL")
    assert second.steady
    assert TARGET.fullmatch(out.strip())
    assert "failed: mlp fp32: the worker process was ended by SIGKILL" in err


def test_control_c_keeps_what_is_finished(tmp_path: Path) -> None:
    """SIGINT: exit code 130, the finished runs shown and stored, no worker left."""
    path = tmp_path / "r.json"
    process = start(path)
    wait_for(lambda: finished(path) == 1)
    (worker,) = wait_for(lambda: workers_of(process))
    process.send_signal(signal.SIGINT)
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


def test_a_terminated_call_leaves_no_worker(tmp_path: Path) -> None:
    """SIGTERM, as a time limit sends it: the result on disk is whole, and the worker ends too."""
    path = tmp_path / "r.json"
    process = start(path)
    (worker,) = wait_for(lambda: workers_of(process))
    process.terminate()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs([worker], timeout=10)
    assert not alive
    valid(path)


def test_a_result_on_stdout_is_json_alone(tmp_path: Path) -> None:
    """``-o -``: what is piped into jq is the stored result, and the lines for scripts are on stderr."""
    done = run([*MODELZOO, "run", MLP, "--precision", "fp32", *SHORT, "-o", "-"], MODELZOO_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (stored,) = tmp_path.glob("*.json")
    assert json.loads(done.stdout) == json.loads(stored.read_text())
    assert TARGET.search(done.stderr)


# Mistakes that are found at once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["runn"], "did you mean 'run'? (see modelzoo --help)"),
        (["fleet", "rum"], "did you mean 'run'? (see modelzoo fleet --help)"),
        (["run", "resnet5"], "(torchvision, timm, hf); did you mean 'resnet50'?"),
        (
            ["run", MLP, "--thread", "2"],
            "arguments: --thread 2; did you mean '--threads'? (see modelzoo run --help)",
        ),
        (["run", MLP, "--mode", "compil"], "graph, not 'compil'; did you mean 'compile'?"),
        (["run", MLP, "--bf16=autocst"], "not 'autocst'; did you mean 'autocast'?"),
        (["run", MLP, "--precision", "bf61"], "not 'bf61'; did you mean 'bf16'?"),
        (["run", MLP, "--vary", "mode=compil"], "error: --vary mode=compil: mode must be one of"),
        (["run", MLP, "--vary", "moode=eager"], "did you mean 'mode'?"),
        (["run", MLP, "--setting", "batch=0"], "error: --setting batch=0: batch must be 1 or more, not 0"),
        (["run", MLP, "--setting", "bf16=magic"], "error: --setting bf16=magic: bf16 must be one of"),
        (["tune", MLP, "--vary", "thp=of"], "error: --vary thp=of: thp must be one of default, off, on, not 'of'"),
        (["compare", "a.json", "b.json", "--metric", "latncy"], "argument --metric: invalid choice: 'latncy'"),
        (
            ["compare", "a.json", "b.json", "-o", "c.pdf"],
            "-o c.pdf: name a file that ends in .txt, .md, .html, .htm, .csv, .json, .xml, or give --format",
        ),
        (
            ["compare", "a.json", "b.json", "-o", "/nonexistent/c.md"],
            "cannot write /nonexistent/c.md: there is no",
        ),
        (["report", "a.json", "-o", "page.pdf"], "-o page.pdf: name a file that ends in .txt, .md, .html"),
        (["report", "a.json", "-o", "/nonexistent/p.html"], "cannot write /nonexistent/p.html: there is no directory"),
        (["doctor", "--json", "/nonexistent/d.json"], "cannot write /nonexistent/d.json: there is no directory"),
        (["run", MLP, "--json", "/nonexistent/r.json"], "cannot write /nonexistent/r.json: there is no directory"),
        (["run", "nosuch"], "no workload 'nosuch': give one of resnet50, ssd, maskrcnn, bert, llm, a directory"),
        (["run", MLP, MLP], "workload mlp is named twice"),
        (["run", MLP, "--nosuch"], "unrecognized arguments: --nosuch"),
        (["run", MLP, "--iter", "3"], "unrecognized arguments: --iter"),
        (["run", MLP, "--batch", "0"], "--batch must be 1 or more, not 0"),
        (["run", MLP, "--batch", "x"], "argument --batch: invalid int value: 'x'"),
        (["run", MLP, "--threads", "0"], "--threads must be 1 or more, not 0"),
        (["run", MLP, "--threads", "100000"], "--threads 100000: this machine has"),
        (["run", MLP, "--processes", "0"], "--processes must be 1 or more, not 0"),
        (["run", MLP, "--iterations", "0"], "--iterations must be 1 or more, not 0"),
        (["run", MLP, "--warmup", "-1"], "--warmup must be 0 or more, not -1"),
        (["run", MLP, "--max-seconds", "0"], "--max-seconds must be a number over 0, not 0"),
        (["run", MLP, "--max-seconds", "nan"], "--max-seconds must be a number over 0, not nan"),
        (["run", MLP, "--seed", "-1"], "--seed must be from 0"),
        (
            ["run", MLP, "--mode", "fast"],
            f"--mode must be one of {', '.join(choices('mode'))}, not 'fast'",
        ),
        (["run", MLP, "--backend", "acl"], "--backend must be one of auto, onednn, blas, not 'acl'"),
        (["run", MLP, "--bf16=magic"], f"--bf16 must be one of {', '.join(choices('bf16_method'))}, not 'magic'"),
        (
            ["run", MLP, "--precision", "fp64"],
            f"--precision must be a list of {', '.join(choices('precision'))}, not 'fp64'",
        ),
        (["run", MLP, "--precision", ""], f"--precision must be a list of {', '.join(choices('precision'))}, not ''"),
        (["run", MLP, "--precision", "fp32", "--bf16"], "contradicts itself"),
        (["run", MLP, "--fp16", "--bf16"], "--fp16 together with --bf16 contradicts itself"),
        (["run", MLP, "--fp16", "--precision", "fp32"], "--fp16 together with precision fp32 contradicts itself"),
        (["run", MLP, "--channels-last=yes"], "argument --channels-last: 'yes' is neither off nor on"),
        (["run", MLP, "--input", "/nonexistent.jpg"], "--input /nonexistent.jpg does not exist"),
        (["run", MLP, "--option", "depth"], "--option 'depth' must have the form NAME=VALUE"),
        (["run", MLP, "--option", "nosuch=1"], "--option nosuch: none of these workloads has it (they have: depth"),
        (["run", MLP, "--option", "depth=x"], "--option depth=x: depth cannot be 'x': number of layers"),
        (["run", MLP, "--option", "depth=0"], "--option depth=0: depth must be 1 or more, not 0"),
        (["run", "bert", "--option", "sequence=5"], "--option sequence=5: sequence must be 16 or more, not 5"),
        (["run", "bert", "--option", "sequence=100000"], "sequence must be 512 or less, not 100000"),
        (["run", MLP, "--json", "/etc/passwd/r.json"], "cannot write /etc/passwd/r.json: there is no directory"),
        (["run", MLP, "--json", "/"], "cannot write /"),
        (["run", MLP, "--python", "/nonexistent"], "python=/nonexistent does not exist; name an environment such as"),
        (["validate", MLP, "--python", "/bin/ls"], "python=/bin/ls is not a Python interpreter; name an environment"),
        (["weights", "list", "nosuch"], "no workload 'nosuch'"),
        (["weights", "steal"], "invalid choice: 'steal'"),
        (["run", MLP, "--margin", "5"], "argument --margin: '5' may mean 5 % or 500 %; write it with its sign: 5%"),
        (["run", MLP, "--budget", "10"], "argument --budget: '10' is not a duration; write it with its unit: 90s"),
        (["run", MLP, "--budget", "1s", "--dry-run"], "--budget 1s is too short: 2 processes"),
        (["run", MLP, "--vary", "mode"], "--vary 'mode' must have the form NAME=V1,V2"),
        (["run", MLP, "--vary", "mode=eager", "--vary", "mode=script"], "mode is varied twice"),
        (["run", MLP, "--mode", "script", "--vary", "mode=eager"], "--mode and --vary mode=… contradict each other"),
        (["run", MLP, "--setting", "mode=eager", "--precision", "bf16"], "cannot be combined with --precision"),
        (["run", MLP, "--setting", "@/nonexistent"], "--setting @/nonexistent cannot be read: No such file"),
        (["run", MLP, "--baseline", "mode=script"], "--baseline 'mode=script' is none of the settings of mlp"),
        (["run", MLP, "--lock-clocks", "900"], "--lock-clocks locks the clocks of NVIDIA GPUs"),
        (["run", "/etc"], "no workload '/etc': give one of"),
        (["validate", MLP, "--tolerance", "f1"], "--tolerance 'f1' must have the form NAME=NUMBER"),
        (["validate", MLP, "--data", "/nonexistent"], "--data /nonexistent does not exist"),
        (["validate", MLP, "--limit", "0"], "--limit must be 1 or more, not 0"),
        (["throughput", MLP, "--threads", "2"], "give --cores-per-instance N instead"),
        (["throughput", MLP, "--slo", "50ms"], "argument --slo: "),
        (["throughput", MLP, "--instances", "0"], "argument --instances: '0' is not a list of whole numbers over 0"),
        (["load", MLP], "give either --rate R, or --find with --slo"),
        (["load", MLP, "--find"], "--find needs the bound to be met: --slo p99=50ms"),
        (["load", MLP, "--rate", "5", "--instances", "0"], "--instances must be 1 or more, not 0"),
        (["tune", MLP, "--resume", "/nonexistent.json"], "cannot read /nonexistent.json: No such file"),
        (["tune", MLP, "--dry-run", "--resume", "r.json"], "--dry-run prints the plan of a new search; leave --resume"),
        (["tune", MLP, "--goal", "latensy"], "did you mean 'latency'?"),
        (["report", "/etc"], "/etc contains no results (*.json)"),
        (["report", str(ROOT / "README.md")], "README.md"),
        (["compare", "/nonexistent.json", "b.json"], "cannot read /nonexistent.json: No such file"),
        (["compare", "a.json", "b.json", "--fail-on", "slow"], "--fail-on must be slower:3%, more:3% or one of"),
        (["compare", "a.json", "b.json", "--allow", "all"], "--allow must be one of weights, "),
    ],
    ids=lambda value: " ".join(value).replace(MLP, "mlp") if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on stdout, one line that names the option, what it was and what it may be."""
    try:
        code = cli.main(options)
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capfd.readouterr()
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1), captured.err
    assert message in captured.err
    assert captured.err.startswith("modelzoo")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OMP_NUM_THREADS", "abc", "OMP_NUM_THREADS=abc is not a number of threads"),
        ("OMP_NUM_THREADS", "0", "OMP_NUM_THREADS=0 is not a number of threads"),
        ("DNNL_DEFAULT_FPMATH_MODE", "BF17", "DNNL_DEFAULT_FPMATH_MODE=BF17 is unknown to oneDNN"),
        ("MODELZOO_RESULTS", "/etc/passwd", "cannot write /etc/passwd/"),
    ],
)
def test_a_bad_environment_value_is_one_line(variable: str, value: str, message: str) -> None:
    """Variables are held to the same rule as options."""
    assert message in only_line(run([*MODELZOO, "run", MLP, *SHORT[:-2]], **{variable: value}))


@pytest.mark.parametrize("options", [[], ["--engine", "onnxruntime"]])
def test_a_torch_that_is_too_old_is_one_line(options: list[str], tmp_path: Path) -> None:
    """Also where it only makes the model that another engine runs."""
    (tmp_path / "torch.py").write_text('__version__ = "2.5.1+cpu"\n')
    line = only_line(run([*MODELZOO, "run", MLP, *options], PYTHONPATH=str(tmp_path)))
    assert "torch 2.5.1+cpu is too old: this suite needs 2.6 or newer; run pip install --upgrade torch" in line


@pytest.mark.parametrize(("value", "threads"), [("1,4", 1), ("2", 2), ("", None)])
def test_the_first_thread_count_of_a_list_is_taken(
    value: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenMP allows one count for each nesting level; an empty variable says nothing."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    parser = Parser()
    setting_options.add_setting(parser)
    work = discovery.load_workload(Path(MLP))
    assert setting_options.make_setting(parser.parse_args([]), work, {}, "fp32").threads == threads
    assert setting_options.make_setting(parser.parse_args(["--threads", "3"]), work, {}, "fp32").threads == 3


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, as with --help: who types the name alone wants to know what there is."""
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("usage: modelzoo ")


# Mistakes that only the worker can see


def test_mistakes_that_the_worker_finds_are_named(tmp_path: Path) -> None:
    """Each setting has its own; all are found before anything is measured."""
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
    assert "Traceback" not in done.stderr
    errors = {run.group: run.error or "" for run in store.read(path).runs}
    assert len(errors) == len(expected)
    for group, message in enumerate(expected.values()):
        assert message in errors[group]
    assert done.stderr.count("failed: resnet50") == len(expected)


def test_a_mistake_that_the_worker_finds_is_one_line(tmp_path: Path) -> None:
    """From a workload's own script, with no table and no progress before it; MODELZOO_WEIGHTS is never passed over."""
    done = run([*performance("resnet50"), *SHORT], ROOT / "resnet50", MODELZOO_WEIGHTS=str(tmp_path / "none"))
    assert "MODELZOO_WEIGHTS=" in only_line(done)


def test_the_checkpoint_of_another_model_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is missing and what is unknown; nothing is timed."""
    import torch

    foreign = tmp_path / "foreign.pt"
    torch.save({"other.weight": torch.ones(3)}, foreign)
    words = ["--weights", str(foreign), "--precision", "fp32", *SHORT, "--json", str(tmp_path / "r.json")]
    assert cli.main(["run", MLP, *words]) == 2
    captured = capfd.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert re.search(r"foreign\.pt does not fit the model: \d+ tensors missing .*1 unknown", captured.err)


def test_a_picture_is_no_text_for_bert(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The file is named, and nothing is timed."""
    from PIL import Image

    picture = tmp_path / "red.png"
    Image.new("RGB", (64, 48), "red").save(picture)
    words = ["--weights", "random", "--precision", "fp32", *SHORT, "--json", str(tmp_path / "r.json")]
    assert cli.main(["run", "bert", "--input", str(picture), *words]) == 2
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", f"modelzoo: error: {picture} is not UTF-8 text; give a text file\n")


@pytest.mark.parametrize("text", ["def (", "raise SystemExit(0)", "X = 1"])
def test_a_broken_workload_is_one_line(text: str, tmp_path: Path) -> None:
    """Syntax errors, exits and missing declarations, in a folder with a space."""
    folder = tmp_path / "my workload"
    folder.mkdir()
    (folder / "workload.py").write_text(text)
    assert str(folder / "workload.py") in only_line(run([*MODELZOO, "run", str(folder)]))


# Help, pipes, the variable route


HELP = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", sorted({"torch", "numpy", "torchvision", "transformers", "matplotlib"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", [*discovery.STANDARD_WORKLOADS, "llm", "examples/mlp"])
def test_help_of_a_workload_needs_no_torch(name: str) -> None:
    """``performance.py --help`` names the workload's own options and defaults and loads nothing heavy."""
    done = run([sys.executable, "-c", HELP, str(ROOT / name / "performance.py"), "--help"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "LOADED []"
    work = discovery.load_workload(ROOT / name)
    assert "--bf16" in done.stdout
    assert all(f"--{option.name}" in done.stdout for option in work.options)
    assert work.title in " ".join(done.stdout.split())


@pytest.mark.parametrize("options", [["--help"], ["run", "--help"], ["--version"]])
def test_help_of_the_command_needs_no_torch(options: list[str]) -> None:
    """``modelzoo --help`` answers at once."""
    done = run([sys.executable, "-c", HELP, cli.__file__, *options])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_a_result_is_stored_if_stdout_cannot_be_written(tmp_path: Path) -> None:
    """A full disk."""
    path = tmp_path / "r.json"
    words = [*MODELZOO, "run", MLP, "--precision", "fp32", *SHORT, "--json", str(path)]
    done = run(["bash", "-c", f"{shlex.join(words)} >/dev/full"])
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "modelzoo: error: cannot write to stdout: No space left on device"
    assert [bool(each.steady) for each in store.read(path).runs] == [True]


@pytest.mark.parametrize(
    ("redirection", "code", "problem"),
    [
        ("| head -0", 141, ""),
        (">&-", 0, ""),
        (">/dev/full", 2, "modelzoo: error: cannot write to stdout: No space left on device"),
    ],
)
def test_a_stdout_that_cannot_be_written_is_no_traceback(redirection: str, code: int, problem: str) -> None:
    """Its reader has ended, it is closed from the start, or the disk is full."""
    stored = str(ROOT / "tests/data/results/mlp.json")
    words = shlex.join([*MODELZOO, "compare", stored, stored])
    done = run(["bash", "-c", f"set -o pipefail; {words} {redirection}"])
    assert (done.returncode, done.stderr.strip()) == (code, problem)


def test_with_stderr_closed_errors_do_not_go_to_stdout() -> None:
    """stdout is for scripts, whatever happens."""
    done = run(["bash", "-c", f"{sys.executable} -m modelzoo run nosuch 2>&-"])
    assert (done.returncode, done.stdout) == (2, "")


def test_the_variable_route(tmp_path: Path) -> None:
    """``DNNL_DEFAULT_FPMATH_MODE=BF16 python3 performance.py --bf16``: fast math, named in table and result."""
    path = tmp_path / "r.json"
    command = [*performance("examples/mlp"), "--bf16", *SHORT, "--json", str(path)]
    done = run(command, ROOT / "examples/mlp", DNNL_DEFAULT_FPMATH_MODE="BF16")
    assert done.returncode == 0, done.stderr
    assert TARGET.fullmatch(done.stdout.strip())
    report = valid(path)["runs"][0]["report"]
    assert report["prepared"]["setting"]["bf16_method"] == "fastmath"
    assert report["provenance"]["environment"]["applied"] == {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}
    assert "bf16 by fastmath" in done.stderr


def test_bare_bf16_never_eats_the_next_word() -> None:
    """``modelzoo run --bf16 resnet50``: the workload is not taken for a way."""
    done = run([*MODELZOO, "run", "--bf16", "nosuch"])
    assert "no workload 'nosuch'" in only_line(done)

"""Fresh workers: their order, their environment, what they report, and what becomes of those that die."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from modelzoo.errors import EnvironmentProblem, InputError, UsageError, WorkerError
from modelzoo.records.canary import Canary
from modelzoo.machine import facts as machine
from modelzoo.machine import limits
from modelzoo.records.machine import CpuUsage, Threads
from modelzoo.measure import process as child
from modelzoo.measure import schedule as runner
from modelzoo.measure import worker as workers
from modelzoo.measure.schedule import Request
from modelzoo.records.timing import LATENCY, SECONDS, Role, Series, StopReason, Timing, WarmUpEnd
from modelzoo.records.workload import Count, Weights, WeightsKind
from modelzoo.setting import Plan, Setting
from modelzoo.workload import discovery
from modelzoo.workload.declaration import Workload

SHORT = Plan(1, 3)
RANDOM = Setting(weights="random", threads=1)
BF16 = RANDOM.replace(precision="bf16")

DECLARATION = """
import os
from modelzoo.workload.declaration import Inputs, Workload

def build(options):
    import torch
    {build}
    return torch.nn.Linear(4, 4)

def inputs(request):
    import torch
    {inputs}
    return Inputs((torch.ones(request.batch, 4),), (os.environ.get("DNNL_DEFAULT_FPMATH_MODE", "unset"),))

WORKLOAD = Workload("odd", "an odd one", "rows", build, inputs)
"""


def odd(folder: Path, build: str = "", inputs: str = "") -> Workload:
    """A workload in a directory of its own, with lines that misbehave."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(DECLARATION.format(build=build, inputs=inputs))
    return discovery.load_workload(folder)


def mlp() -> Workload:
    """The example."""
    return discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def silent(message: Mapping[str, Any]) -> None:
    """No progress."""


# Order


@pytest.mark.parametrize(
    ("settings", "rounds", "expected"),
    [
        (1, 3, [(0, 0), (1, 0), (2, 0)]),
        (2, 3, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]),
        (3, 2, [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]),
    ],
)
def test_settings_are_interleaved(settings: int, rounds: int, expected: list[tuple[int, int]]) -> None:
    """A B B A A B: never one setting after the other."""
    assert list(runner.order(settings, rounds)) == expected


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Mapping[str, Any]]]:
    """Replaces the worker processes by some that answer with their job's kind; collects the jobs."""
    seen: list[Mapping[str, Any]] = []
    replace_children(monkeypatch, seen, lambda job: {"kind": job["kind"]})
    yield seen


def replace_children(
    monkeypatch: pytest.MonkeyPatch,
    seen: list[Mapping[str, Any]],
    answer: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> None:
    """Have every worker be a fake that never pauses, ends at once and gives ``answer(job)``, which may raise."""

    class Fake(AbstractContextManager[Any]):
        precise = True

        def __init__(self, job: Mapping[str, Any], progress: runner.Progress) -> None:
            self._job = job
            seen.append(job)
            progress({"phase": "build"})

        def __exit__(self, *error: object) -> None:
            pass

        def advance(self) -> bool:
            return False

        def result(self) -> dict[str, Any]:
            return answer(self._job)

    monkeypatch.setattr(runner, "Child", Fake)
    monkeypatch.setattr(runner, "call", lambda job, progress: Fake(job, progress).result())


def test_weights_are_resolved_once_and_all_processes_run_the_same(calls: list[Mapping[str, Any]]) -> None:
    """One preparation for both settings and all rounds; its answer goes to every measurement."""
    said: list[Mapping[str, Any]] = []
    runs = list(runner.run(Request(mlp(), (RANDOM, BF16), SHORT, 3), said.append))
    assert [job["kind"] for job in calls] == ["prepare"] + ["measure"] * 6
    assert all(job["weights"] == {"kind": "prepare"} for job in calls[1:])
    assert [run.asked["precision"] for run in runs] == ["fp32", "bf16", "bf16", "fp32", "fp32", "bf16"]
    assert [run.round for run in runs] == [0, 0, 1, 1, 2, 2]
    assert said[-1] == {"workload": "mlp", "setting": "bf16", "round": 2, "phase": "build"}


@pytest.mark.parametrize(("version", "expected"), [("1.13.0", "BF16"), ("2.10.0", None)])
def test_fast_math_is_judged_by_variable_where_torch_has_no_switch(
    version: str, expected: str | None, calls: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it an old torch would judge fp32 against fp32; a newer one gets no variable that reaches both sides."""
    monkeypatch.setattr("modelzoo.machine.installation.installed_version", lambda name: version)
    runner.validate(Request(mlp(), (BF16,), SHORT), BF16.replace(bf16_method="fastmath"), {}, silent)
    assert calls[-1]["kind"] == "validate"
    assert calls[-1]["environment"]["variables"].get("DNNL_DEFAULT_FPMATH_MODE") == expected


@pytest.mark.parametrize(("variable", "backend"), [("BF16", "blas"), (None, "auto")])
def test_the_reference_goes_around_a_variable(
    variable: str | None, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN's math mode cannot be switched back where it came by variable: fp32 is then had without oneDNN."""
    from modelzoo.validity import sides as validation

    if variable:
        monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", variable)
    seen: list[Setting] = []

    def side(work: Workload, setting: Setting, *rest: Any) -> Any:
        seen.append(setting)
        raise EnvironmentProblem("enough")

    monkeypatch.setattr(validation, "make_side", side)
    work = replace(mlp(), judge=object())
    with pytest.raises(EnvironmentProblem, match="enough"):
        validation.validate(
            work, BF16.replace(bf16_method="fastmath"), Weights(WeightsKind.RANDOM, "", "", "", ""), None, {}, silent
        )
    assert [(each.precision, each.backend) for each in seen] == [("fp32", backend)]


def test_what_does_not_vary_is_taken_in_the_first_round_only(calls: list[Mapping[str, Any]]) -> None:
    """Operator tables and traces cost passes: once a setting, each trace in its own file."""
    request = Request(mlp(), (RANDOM, BF16), SHORT, 2, profiling=True, trace="/t/trace.json")
    list(runner.run(request, silent))
    assert [job["first"] for job in calls[1:]] == [True, True, False, False]
    assert [job["trace"] for job in calls[1:3]] == ["/t/trace.json", "/t/trace-1.json"]


def test_impossible_settings_are_tried_once_and_dead_workers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the call made impossible stays so; a worker that died may have had bad luck."""
    tried: list[str] = []

    def answer(job: Mapping[str, Any]) -> dict[str, Any]:
        if job["kind"] == "prepare":
            return {}
        tried.append(job["setting"]["precision"])
        raise UsageError("impossible") if job["setting"]["precision"] == "bf16" else WorkerError("died")

    replace_children(monkeypatch, [], answer)
    runs = list(runner.run(Request(mlp(), (RANDOM, BF16), SHORT, 3), silent))
    assert sorted(tried) == ["bf16", "fp32", "fp32", "fp32"]
    assert {(run.error, run.error_kind) for run in runs} == {("impossible", "UsageError"), ("died", "WorkerError")}


# Turns


class Scripted:
    """A worker that pauses as often as ``pauses`` says it is precise or not, and ends; what it does goes to a diary."""

    def __init__(self, name: str, pauses: list[bool], diary: list[str]) -> None:
        self.child, self.name, self.diary = self, name, diary
        self._pauses = iter(pauses)
        self.precise = next(self._pauses)
        self.stopped = False

    def resume(self, on: bool) -> None:
        self.diary.append(self.name if on else f"{self.name} stop")
        self.stopped = not on

    def advance(self) -> bool:
        said = None if self.stopped else next(self._pauses, None)
        self.precise = bool(said)
        return said is not None


def turns(*pauses: list[bool]) -> tuple[list[str], list[str]]:
    """The diary of workers A, B … and the order in which they ended."""
    diary: list[str] = []
    workers: Any = [Scripted("ABC"[i], each, diary) for i, each in enumerate(pauses)]
    return diary, [worker.name for worker in runner.by_turns(workers)]


def test_workers_sample_by_turns_until_all_are_precise() -> None:
    """A is precise first and goes on, so that both see the same machine; then both are stopped."""
    diary, ended = turns([False, True, True, True], [False, False, True, True])
    assert diary == ["A", "B", "A", "B", "A stop", "B stop"]
    assert ended == ["A", "B"]


def test_a_worker_that_ends_early_leaves_the_turns_to_the_others() -> None:
    """One died or reached its limit; the other is not stopped before it is precise."""
    diary, ended = turns([False, False], [False, False, False, True])
    assert diary == ["A", "B", "A", "B", "B", "B stop"]
    assert ended == ["A", "B"]


def test_two_settings_wait_for_each_other_and_one_does_not() -> None:
    """Real workers: with a rival each has waited for its turns, alone it has not."""
    rivals = [run.report for run in runner.run(Request(mlp(), (RANDOM, BF16), Plan(1, 3), 1, audit=False), silent)]
    assert all(report is not None and report["load"]["waited_seconds"] > 0 for report in rivals)
    assert [len(report["phases"]["steady"]) for report in rivals if report] == [3, 3]
    assert measured(mlp())["load"]["waited_seconds"] == 0


# Environment


def test_libraries_get_their_threads_before_they_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP and BLAS read variables once: they say what the setting says."""
    job = runner.job(Request(mlp(), (), SHORT), RANDOM.replace(threads=3), "measure")
    variables = job["environment"]["variables"]
    assert job["threads"] == 3
    assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"3"}
    monkeypatch.setattr(limits, "usable_threads", lambda: Threads(7, 8, 8, 7.0, "cgroup quota"))
    job = runner.job(Request(mlp(), (), SHORT), Setting(), "measure")
    assert job["threads"] == 7
    assert job["setting"]["threads"] is None, "what was asked for stays what was asked for"


def test_the_variable_reaches_the_worker_with_bf16_and_never_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``DNNL_DEFAULT_FPMATH_MODE=BF16 … --bf16``: seen inside the worker, named in the result, warned of in fp32."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    request = Request(odd(tmp_path / "odd"), (RANDOM, BF16), SHORT, 1, audit=False)
    fp32, bf16 = [run.report for run in runner.run(request, silent)]
    assert fp32 is not None
    assert bf16 is not None
    assert (fp32["items"], bf16["items"]) == (["unset"], ["BF16"])
    assert fp32["environment"] == {"removed": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}, "applied": {}}
    assert bf16["environment"] == {"removed": {}, "applied": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}}
    assert bf16["setting"]["bf16_method"] == "fastmath"
    warned = {advice["code"]: advice["message"] for advice in fp32["advice"]}
    assert "DNNL_DEFAULT_FPMATH_MODE=BF16" in warned["SCRUBBED_VARIABLES"]
    assert fp32["canary_word"] == "fp32"
    assert "SCRUBBED_VARIABLES" not in {advice["code"] for advice in bf16["advice"]}


# Processes that end badly


def measured(work: Workload) -> dict[str, Any]:
    """Prepare and measure in real workers."""
    request = Request(work, (RANDOM,), SHORT, 1, audit=False)
    (run,) = runner.run(request, silent)
    assert run.error is None, run.error
    assert run.report is not None
    return run.report


def failure(work: Workload) -> tuple[str, str]:
    """Error and its kind of a run whose inputs must fail; with an input named, its preparation does."""
    (run,) = runner.run(Request(work, (RANDOM.replace(input="/"),), SHORT, 1, audit=False), silent)
    assert run.report is None
    assert run.error is not None
    assert run.error_kind is not None
    assert "\n" not in run.error
    return run.error, run.error_kind


def test_what_libraries_print_disturbs_nothing(tmp_path: Path) -> None:
    """Lines on stdout and stderr, also ones that look like messages, are not taken for messages."""
    noise = """print('{"done": {}}'); import sys; sys.stderr.write('{"error": "no"}'); os.write(1, b"x" * 100000)"""
    report = measured(odd(tmp_path / "odd", build=noise))
    assert report["workload"] == "odd"
    assert len(report["phases"]["steady"]) == 3


def test_a_killed_worker_is_named_by_its_signal(tmp_path: Path) -> None:
    """SIGKILL most often means out of memory."""
    error, kind = failure(odd(tmp_path / "odd", inputs="os.kill(os.getpid(), 9)"))
    assert error == "the worker process was ended by SIGKILL (out of memory? try a smaller --batch)"
    assert kind == "WorkerError"


def test_a_crash_gives_its_last_line(tmp_path: Path) -> None:
    """An exception nobody foresaw: one line of it, not the traceback."""
    error, kind = failure(odd(tmp_path / "odd", inputs="raise ArithmeticError('seven is not eight')"))
    assert error == "the worker process ended with code 1: ArithmeticError: seven is not eight"
    assert kind == "WorkerError"


@pytest.mark.parametrize("line", ["torch.empty(10**15)", "raise MemoryError"])
def test_out_of_memory_is_said_as_such(line: str, tmp_path: Path) -> None:
    """torch's failed allocation and Python's: the same advice."""
    error, kind = failure(odd(tmp_path / "odd", inputs=line))
    assert (error, kind) == ("out of memory; use a smaller --batch", "WorkerError")


def test_errors_keep_their_class_across_the_border(tmp_path: Path) -> None:
    """A worker's InputError is an InputError here, with its sentence."""
    line = "from modelzoo.errors import InputError; raise InputError('no such picture: x')"
    assert failure(odd(tmp_path / "odd", inputs=line)) == ("no such picture: x", "InputError")


@pytest.mark.parametrize(
    ("code", "output", "kind", "message"),
    [
        (-signal.SIGSEGV, "", WorkerError, "ended by SIGSEGV"),
        (-signal.SIGILL, "", WorkerError, r"SIGILL \(this build of torch has instructions that this CPU lacks\)"),
        (3, "", WorkerError, "ended with code 3: no output"),
        (1, "Traceback\nModuleNotFoundError: No module named 'torch'\n", EnvironmentProblem, "no module 'torch': run"),
    ],
)
def test_every_death_has_its_sentence(code: int, output: str, kind: type[Exception], message: str) -> None:
    """Signals by name, with the likely cause; a missing module with the cure."""
    error = child.death(code, output)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error


def test_half_a_message_is_none() -> None:
    """A worker killed while it wrote leaves half a line; what came before counts."""
    stream = io.BytesIO(b'{"phase": "build"}\n{"done": {"a"')
    assert list(child.messages(stream)) == [{"phase": "build"}]


def test_an_interrupted_parent_ends_its_worker(tmp_path: Path) -> None:
    """Ctrl-C while a worker runs: raised on, and no process is left behind."""
    work = odd(tmp_path / "odd", inputs="import time; time.sleep(60)")
    job = {**runner.job(Request(work, (RANDOM,), SHORT), RANDOM.replace(input="/"), "prepare")}

    def interrupt(message: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.call(job, interrupt)
    assert not [
        p for p in psutil.Process().children(recursive=True) if "modelzoo.measure.worker" in " ".join(p.cmdline())
    ]


PARENT = """
import sys
from pathlib import Path
from modelzoo.measure import process as child
from modelzoo.measure import schedule as runner
from modelzoo.workload import discovery
from modelzoo.setting import Plan, Setting
work = discovery.load_workload(Path(sys.argv[1]))
request = runner.Request(work, (), Plan())
child.call(runner.job(request, Setting(input="/"), "prepare"), lambda message: print(message, flush=True))
"""


def test_a_killed_parent_takes_its_worker_along(tmp_path: Path) -> None:
    """kill -9 on the command leaves no worker that goes on loading the machine."""
    work = odd(tmp_path / "odd", inputs="import time; time.sleep(60)")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(work.directory)], stdout=subprocess.PIPE, cwd=discovery.CHECKOUT
    )
    try:
        assert parent.stdout is not None
        assert b"weights" in parent.stdout.readline()
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        gone, alive = psutil.wait_procs([child], timeout=10)
        assert not alive, gone
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


# What a worker reports, run in this process


@pytest.fixture
def restored() -> Iterator[None]:
    """Measuring here sets this process's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def report_of(
    setting: Setting = RANDOM, work: Workload | None = None, plan: Plan = SHORT, **changes: Any
) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """The report of a measurement in this process, and its messages."""
    request = Request(work or mlp(), (setting,), plan, audit=False)
    said: list[Mapping[str, Any]] = []
    weights = workers.prepare(runner.job(request, setting, "prepare"), said.append)
    job = {**runner.job(request, setting, "measure"), "weights": weights, "audit": False, "first": True}
    job |= {"profiling": False, "trace": None, "turns": False, **changes}
    return workers.measure(job, said.append), said


@pytest.mark.usefixtures("restored")
def test_a_report_is_complete() -> None:
    """Every value that was left to the worker is filled in; phases are apart; it is JSON."""
    report, said = report_of(RANDOM.replace(options={"depth": 2}), plan=Plan(2, 5))
    assert report["setting"]["batch"] == 16
    assert report["setting"]["threads"] == 1
    assert report["setting"]["options"] == {"width": 256, "depth": 2}
    assert (len(report["phases"]["warmup"]), len(report["phases"]["steady"])) == (2, 5)
    assert report["canary_word"] == "fp32"
    assert report["weights"]["kind"] == "random"
    assert report["peak_memory"] > 1 << 20
    assert [a["code"] for a in report["advice"]][:1] == ["RANDOM_WEIGHTS"]
    phases = list(dict.fromkeys(str(message["phase"]) for message in said))
    assert phases == ["weights", "load", "build", "cold", "warm-up", "steady", "audit"]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("bf16_method", "dtype"), [("autocast", torch.bfloat16), ("cast", torch.bfloat16)])
def test_bf16_is_reported_with_its_way_and_what_the_canary_saw(bf16_method: str, dtype: torch.dtype) -> None:
    """The way that was taken, and that it was active."""
    report, _ = report_of(BF16.replace(bf16_method=bf16_method))
    assert report["setting"]["bf16_method"] == bf16_method
    assert report["canary_word"] == "active"


@pytest.mark.usefixtures("restored")
def test_under_an_emulator_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, for correctness; there are no phases, and a warning says why."""
    facts = machine.read_machine()
    monkeypatch.setattr(machine, "facts", lambda: replace(facts, emulator="qemu"))
    report, _ = report_of()
    assert report["phases"] is None
    assert "EMULATED" in [a["code"] for a in report["advice"]]
    assert report["canary_word"] == "fp32"


@pytest.mark.usefixtures("restored")
def test_no_bf16_in_the_cpu_is_a_warning_and_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated bf16 is slow, not impossible."""
    facts = machine.read_machine()
    monkeypatch.setattr(machine, "facts", lambda: replace(facts, has_bf16=False, features=("avx2",)))
    report, _ = report_of(BF16)
    warned = {a["code"]: a for a in report["advice"]}
    assert warned["NO_BF16_HARDWARE"]["message"] == "this CPU has no bf16 instructions (avx2)"
    assert report["phases"]["steady"]


@pytest.mark.usefixtures("restored")
def test_an_operator_that_torch_refuses_is_a_usage_error(tmp_path: Path) -> None:
    """The workload, the setting and torch's own reason in one line."""
    work = odd(tmp_path / "odd", inputs="return Inputs((torch.ones(1, 5),), ('five',))")
    with pytest.raises(UsageError, match="odd cannot run with fp32: .*shapes cannot be multiplied"):
        report_of(work=work)


@pytest.mark.usefixtures("restored")
def test_bert_runs_on_a_trained_checkpoint(shared: Path) -> None:
    """``--weights PATH`` with its own tokenizer, on few tokens."""
    work = discovery.load_workload(discovery.find_workload("bert"))
    path = str(shared / "weights/bert/minilm-l6-squad")
    report, _ = report_of(RANDOM.replace(weights=path, options={"sequence": 32}), work, Plan(0, 2))
    assert report["weights"]["kind"] == "path"
    assert report["weights"]["path"] == path
    assert "RANDOM_WEIGHTS" not in [a["code"] for a in report["advice"]]
    assert len(report["phases"]["steady"]) == 2


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("resnet50", {}, id="resnet50"),
        pytest.param("ssd", {}, marks=pytest.mark.slow, id="ssd"),
        pytest.param("maskrcnn", {}, marks=pytest.mark.slow, id="maskrcnn"),
    ],
)
def test_standard_workloads_run_in_both_precisions(name: str, options: dict[str, Any]) -> None:
    """With random weights, bf16 by autocast; detectors report counts like a trained model's."""
    work = discovery.load_workload(discovery.find_workload(name))
    for setting in (RANDOM, BF16.replace(bf16_method="autocast")):
        report, _ = report_of(setting.replace(options=options), work, Plan(0, 1))
        assert len(report["phases"]["steady"]) == 1
        assert bool(report["counts"]) == (name != "resnet50")
        assert "MISMATCHED_COUNTS" not in [a["code"] for a in report["advice"]]


def test_prepare_tries_the_users_mistakes_first(tmp_path: Path) -> None:
    """A device or picture that is not there is found before minutes go into weights."""
    work = odd(tmp_path / "odd", build="raise AssertionError('weights were made')")
    setting = RANDOM.replace(device="tpu")
    with pytest.raises(EnvironmentProblem, match="knows no device 'tpu'"):
        workers.prepare(runner.job(Request(work, (setting,), SHORT), setting, "prepare"), silent)
    text = tmp_path / "text.txt"
    text.write_text("no picture")
    resnet50 = discovery.load_workload(discovery.find_workload("resnet50"))
    setting = RANDOM.replace(input=str(text))
    with pytest.raises(InputError, match="is not a picture"):
        workers.prepare(runner.job(Request(resnet50, (setting,), SHORT), setting, "prepare"), silent)
    assert not (tmp_path / "cache").exists()


# Warnings


WEIGHTS = Weights(WeightsKind.PRETRAINED, "", "", "", "")
PHASES = Timing(
    1.0,
    (1.0,) * 10,
    (Series(LATENCY, SECONDS, Role.LATENCY, (1.0,) * 40),),
    LATENCY,
    WarmUpEnd.SETTLED,
    StopReason.INTERVAL,
)
IDLE = CpuUsage(10.0, 2.0, 0.0, 0.0, 0.01, 0, 0, 0.0)


def codes(setting: Setting = RANDOM, **changes: Any) -> list[str]:
    """Codes of the warnings of a run that is good but for ``changes``."""
    values: dict[str, Any] = {
        "bf16_method": None,
        "weights": WEIGHTS,
        "canary": Canary(()),
        "word": "fp32" if setting.precision == "fp32" else "active",
        "counts": (),
        "phases": PHASES,
        "load": IDLE,
        "facts": replace(machine.read_machine(), has_bf16=True, emulator=None),
        "environment": {"removed": {}},
        **changes,
    }
    return [advice.code for advice in workers._warnings(setting, **values)]


COUNT = Count("boxes", 5000, 450, 3200, "a source")


@pytest.mark.parametrize(
    ("setting", "changes", "expected"),
    [
        (RANDOM, {}, []),
        (BF16, {}, []),
        (RANDOM, {"weights": replace(WEIGHTS, kind=WeightsKind.RANDOM)}, ["RANDOM_WEIGHTS"]),
        (RANDOM, {"word": "not fp32"}, ["FP32_NOT_FP32"]),
        (BF16, {"word": "partly"}, ["BF16_PARTLY"]),
        (BF16, {"word": "not active"}, ["BF16_NOT_ACTIVE"]),
        (RANDOM, {"counts": (COUNT,)}, []),
        (
            RANDOM,
            {"counts": (COUNT,), "weights": replace(WEIGHTS, kind=WeightsKind.RANDOM)},
            ["RANDOM_WEIGHTS", "MISMATCHED_COUNTS"],
        ),
        (RANDOM.replace(threads=10_000), {}, ["OVERSUBSCRIBED"]),
        (RANDOM, {"load": replace(IDLE, other_cores=0.5)}, ["OTHER_LOAD"]),
        (RANDOM, {"load": replace(IDLE, steal_percent=5.0)}, ["STOLEN_TIME"]),
        (RANDOM, {"phases": replace(PHASES, warmup_end=WarmUpEnd.CAP)}, ["WARMUP_CAP"]),
        (
            RANDOM,
            {"phases": replace(PHASES, series=(Series(LATENCY, SECONDS, Role.LATENCY, (1.0,) * 3),))},
            ["FEW_SAMPLES"],
        ),
        (RANDOM, {"phases": replace(PHASES, stop=StopReason.TIME_LIMIT)}, ["TIME_LIMIT"]),
        (
            RANDOM,
            {"phases": replace(PHASES, series=(Series(LATENCY, SECONDS, Role.LATENCY, (1.0,) * 40 + (9.0,)),))},
            ["OUTLIERS"],
        ),
        (RANDOM, {"environment": {"removed": {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}}}, ["SCRUBBED_VARIABLES"]),
    ],
)
def test_a_run_warns_of_what_spoils_it_and_of_nothing_else(
    setting: Setting, changes: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each condition has its own warning; a good run has none."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert codes(setting, **changes) == expected


def test_a_waiting_policy_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes the speed of short operators."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert codes() == ["WAIT_POLICY"]


def test_the_worker_reads_its_job_and_answers_on_its_own_pipe() -> None:
    """The protocol itself: a job on stdin, one JSON object a line on the pipe, exit code 2 for a user's error."""
    request = Request(mlp(), (RANDOM,), SHORT)
    job = runner.job(request, RANDOM.replace(weights="/nonexistent"), "prepare")
    reading, writing = os.pipe()
    done = subprocess.run(
        [sys.executable, "-m", "modelzoo.measure.worker", str(writing)],
        input=json.dumps(job).encode(),
        pass_fds=(writing,),
        cwd=discovery.CHECKOUT,
        capture_output=True,
        check=False,
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        messages = [json.loads(line) for line in stream]
    assert done.returncode == 2
    assert done.stdout == b""
    assert [list(message) for message in messages] == [["phase"], ["error", "error_kind"]]
    assert messages[1]["error_kind"] == "WeightsError"

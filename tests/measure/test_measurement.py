"""What a worker reports of a setting that it has timed, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fake_runs import changed
from toy_workloads import BF16, RANDOM, SHORT, mlp, odd

from modelzoo.engines.torch import switches
from modelzoo.engines.torch.engine import TorchEngine
from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine, usable_threads
from modelzoo.measure import instance
from modelzoo.measure.instance import Instance
from modelzoo.measure.preparation import prepare
from modelzoo.measure.reporting import first_answer
from modelzoo.plan import Plan
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.protocol import Assignment, Looks, Message, PrepareJob, Progress, Send
from modelzoo.records.run import RunReport
from modelzoo.records.run_report import Compilation
from modelzoo.records.timing import LATENCY, Series, Timing
from modelzoo.records.workload import WeightsKind
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload


@pytest.fixture(autouse=True)
def _switches(restored: None) -> Iterator[None]:
    """Models that misbehave set more than threads."""
    enabled = torch.backends.mkldnn.enabled
    with switches.fast_math(False):
        yield
    torch._C._set_mkldnn_enabled(enabled)
    torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float32)
    torch.set_flush_denormal(False)


def job_for(setting: Setting, work: Workload) -> Assignment:
    """What measures ``setting``, prepared here."""
    (prepared,) = prepare(PrepareJob(str(work.directory), (setting,), 0), lambda message: None)
    assert prepared.prepared is not None, prepared.error
    return Assignment(str(work.directory), setting, prepared.prepared, 0)


def measured(job: Assignment, plan: Plan = SHORT, send: Send = lambda message: None, **looks: bool) -> RunReport:
    """The report of a measurement in this process; without an audit, and with extras, unless ``looks`` says so."""
    own = Instance(job, send)
    with own.active:
        own.load()
        own.warm_up(plan, False, None)
        while own.turn():
            pass
        return own.observe(Looks(**{"audit": False, "extras": True, **looks}))


def report_of(setting: Setting = RANDOM, work: Workload | None = None, plan: Plan = SHORT, **looks: bool) -> RunReport:
    """The report of a measurement in this process."""
    return measured(job_for(setting, work or mlp()), plan, **looks)


@pytest.fixture
def _binding_libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine that binds this thread to one CPU when it is loaded, as libgomp does with ``GOMP_CPU_AFFINITY``."""
    cpus = os.sched_getaffinity(0)
    monkeypatch.setattr(TorchEngine, "load", lambda engine: os.sched_setaffinity(0, {min(cpus)}))
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
@pytest.mark.usefixtures("_binding_libraries")
def test_cpus_are_counted_before_libraries_bind_this_thread() -> None:
    """Otherwise bound threads would make every default a single thread."""
    cpus, expected = tuple(sorted(os.sched_getaffinity(0))), usable_threads()
    setting = RANDOM.replace(threads=None)
    job = job_for(setting, mlp())
    assert job.setting.threads == expected.count
    os.sched_setaffinity(0, cpus)
    report = measured(job)
    assert (report.provenance.cpus, report.provenance.machine.threads) == (cpus, expected)
    assert report.usage is not None
    watched = report.usage.resolution * report.usage.seconds * os.sysconf("SC_CLK_TCK")
    assert watched == pytest.approx(len(cpus)), "the load of other programs on all of them is seen"


def codes(report: RunReport) -> list[str]:
    """The codes of its warnings."""
    return [warning.code for warning in report.warnings]


def test_a_report_is_complete() -> None:
    """Every value that was left open is filled in, phases are apart, and what ran can be identified."""
    sent: list[Message] = []
    report = measured(job_for(RANDOM.replace(options={"depth": 2}), mlp()), Plan(2, 5), sent.append)
    assert (report.setting.batch, report.setting.threads) == (16, 1)
    assert report.setting.options == {"width": 256, "depth": 2}
    assert report.timing is not None
    assert (len(report.timing.warmup), len(report.timing.steady)) == (2, 5)
    assert report.observed.canary_verdict is CanaryVerdict.FP32
    assert report.prepared.weights.kind is WeightsKind.RANDOM
    assert report.peak_memory > 1 << 20
    assert codes(report)[:1] == ["RANDOM_WEIGHTS"]
    assert report.provenance.digest is not None and report.inputs_digest is not None
    assert report.provenance.cpus
    assert torch.__version__.startswith(report.provenance.versions["torch"])
    phases = list(dict.fromkeys(message.phase for message in sent if isinstance(message, Progress)))
    assert phases == ["load", "cold", "warm-up", "steady", "audit"]


def test_peak_memory_is_that_of_the_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit, the operations and the profile take memory as well, which a process that only serves does not."""
    order: list[str] = []
    for name in ("observe", "peak_memory"):
        kept = getattr(instance, name)
        monkeypatch.setattr(instance, name, lambda *args, name=name, kept=kept: order.append(name) or kept(*args))
    report_of()
    assert order == ["peak_memory", "observe"]


@pytest.mark.parametrize(
    ("made", "expected"), [(None, 3.0), (Compilation(40.0), 43.0), (Compilation(40.0, 39.0, 2), 39.0)]
)
def test_the_first_answer_includes_compiling(made: Compilation | None, expected: float) -> None:
    """Whether the first call belongs to compiling, comes after it, or nothing was compiled."""
    steady = Series(LATENCY, (1.0,))
    timing = Timing(3.0, (), (steady,), LATENCY, "fixed", "iterations")
    assert first_answer(made, timing) == expected


def test_observations_come_with_the_audit_and_the_extras(tmp_path: Path) -> None:
    """Evidence from every audited process; operations, replays, profile and counts only from those asked for extras."""
    items = "from pathlib import Path; return Inputs((torch.ones(request.batch, 4),), [7, Path('x')])"
    work = odd(tmp_path / "odd", "", items, more="count=lambda model, inputs: [Count('rows', 1, 0, 2, 'here')]")
    report = report_of(work=work, audit=True, extras=True, profiling=True)
    assert report.items == ("7", "x"), "a workload may describe them by numbers or paths"
    seen = report.observed
    assert seen.evidence is not None and seen.evidence.is_replayed
    assert seen.flops is not None and seen.profile is not None
    assert [count.name for count in seen.counts] == ["rows"]
    seen = report_of(work=work, audit=True, extras=False, profiling=True).observed
    assert seen.evidence is not None and seen.evidence.products == ()
    assert (seen.flops, seen.profile, seen.counts) == (None, None, ())


def test_a_process_whose_kernels_no_log_names_is_audited_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other way to prove what it ran; the canary and the data types then decide."""
    monkeypatch.setattr("modelzoo.evidence.logs.kernel_digest", lambda output: None)
    report = report_of(audit=True, full_audit=False, extras=False)
    assert report.observed.kernels is None
    assert report.observed.evidence is not None


@pytest.mark.parametrize(
    ("build", "code", "found"),
    [
        ("torch.set_num_threads(2)", "OTHER_THREADS", "torch.get_num_threads() was 2, not 1"),
        ("torch.set_float32_matmul_precision('medium')", "OTHER_PRECISION", "was bf16, not ieee"),
        ("torch.set_default_dtype(torch.float64)", "OTHER_PRECISION", "was torch.float64, not torch.float32"),
        ("torch._C._set_mkldnn_enabled(False)", "OTHER_SWITCHES", "torch.backends.mkldnn.enabled was False"),
        ("torch.use_deterministic_algorithms(True)", "OTHER_SWITCHES", "deterministic_algorithms_enabled() was True"),
        ("torch.set_flush_denormal(True)", "OTHER_SWITCHES", "flush-to-zero was True, not False"),
        ("pass", None, ""),
    ],
)
def test_what_a_model_switches_is_no_longer_what_was_asked_for(
    tmp_path: Path, build: str, code: str | None, found: str
) -> None:
    """The label names threads and a precision; the switches after the last sample are compared with it."""
    if "flush" in build and not torch.set_flush_denormal(True):
        pytest.skip("torch cannot flush subnormal numbers on this CPU")
    if "medium" in build and not hasattr(torch.backends.mkldnn, "conv"):
        found = "was medium, not highest"
    report = report_of(work=odd(tmp_path, build=build))
    said = {each.code: each.message for each in report.warnings if each.code.startswith("OTHER_")}
    said.pop("OTHER_LOAD", None)
    assert list(said) == ([code] if code else [])
    assert found in said.get(code or "", "")
    assert report.busy_cores is not None


def test_a_worker_that_would_decide_otherwise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are resolved once: another answer in a worker is an error, not another run."""
    job = job_for(BF16, mlp())
    other = changed(job, setting=replace(job.setting, bf16_method="cast"))
    with pytest.raises(EnvironmentProblem, match="bf16_method autocast, but cast was decided"):
        measured(other)


def test_under_an_emulator_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, for correctness; there is no timing, and a warning says why."""
    facts = read_machine()
    monkeypatch.setattr(instance, "read_machine", lambda: replace(facts, emulator="qemu-user"))
    report = report_of()
    assert report.timing is None
    assert "EMULATED" in codes(report)
    assert report.observed.canary_verdict is CanaryVerdict.FP32


@pytest.mark.parametrize(
    "name",
    ["resnet50", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ssd", "maskrcnn"))],
)
def test_standard_workloads_run_in_both_precisions(name: str) -> None:
    """With random weights, bf16 by autocast; detectors report counts like a trained model's."""
    work = load_workload(find_workload(name))
    for setting in (RANDOM, BF16.replace(bf16_method="autocast")):
        report = report_of(setting, work, Plan(0, 1))
        assert report.timing is not None
        assert len(report.timing.steady) == 1
        wanted = CanaryVerdict.FP32 if setting is RANDOM else CanaryVerdict.ACTIVE
        assert report.observed.canary_verdict is wanted
        assert bool(report.observed.counts) == (name != "resnet50")
        assert "MISMATCHED_COUNTS" not in codes(report)

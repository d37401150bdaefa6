"""Typed runs as a worker would report them, for tests of what is made of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from example_machine import SERVER
from msgspec.structs import asdict
from places import DATA

from modelzoo.frozen import replace
from modelzoo.plan import Plan
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.coverage import Coverage, WrongOutputs
from modelzoo.records.evidence import (
    ClassVerdict,
    Evidence,
    LogSource,
    NotUsed,
    OperatorClass,
    OtherPrecision,
    Product,
    ProofSource,
    ProofVerdict,
)
from modelzoo.records.machine import Threads
from modelzoo.records.run import Observed, Prepared, Provenance, Result, Run, RunReport, SettingRequest, ValidityEntry
from modelzoo.records.timing import LATENCY, Series, Timing
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.results import store, summary
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage

T = TypeVar("T")
STARTED = "2026-01-01T00:00:00+00:00"
ERRORS = {CanaryLevel.FP32: 2e-7, CanaryLevel.REDUCED: 2e-4, CanaryLevel.BF16: 2.9e-3}
WEIGHTS = Weights(WeightsKind.RANDOM, "seed 0", "/cache/toy.safetensors", "abc", 0)
MACHINE = replace(
    SERVER,
    features=("bf16",),
    **dict.fromkeys(("cores", "logical"), 4),
    **dict.fromkeys(("memory", "memory_limit"), 8 << 30),
    **dict.fromkeys(("governor", "mhz", "max_mhz", "huge_pages")),
    caches=(),
    allocator="glibc",
    threads=Threads(4, 4, 4, None),
    kernel="6.1",
    libc="glibc 2.36",
    python="3.11.2",
)


def canary(level: CanaryLevel) -> Canary:
    """A canary whose three operators all ran at ``level``."""
    return Canary(tuple(OperatorCheck(name, ERRORS[level], level) for name in ("matmul", "linear", "conv")))


REASONS = {
    ProofVerdict.NOT_ACTIVE: NotUsed("fp32", ("mkl sgemm",), "oneDNN", False),
    ProofVerdict.NOT_FP32: OtherPrecision((OperatorClass.LINEAR,), ("bf16",), ("mkl gemm_bf16",)),
}
BF16_SHARES = {ProofVerdict.ACTIVE: 1.0, ProofVerdict.PARTLY: 0.5}


WRONG_CONV = Product(
    operator="aten::convolution",
    operator_class=OperatorClass.CONV,
    shapes=((1, 128, 49), (128, 8, 128), (128,)),
    operands="bf16",
    count=1,
    layers=("encoder.pos_conv_embed.conv",),
    kernels=("oneDNN convolution brg_conv_fwd:avx10_1_512_amx",),
    logged="bf16",
    error=1.1,
    shown="narrower than bf16",
    wrong=WrongOutputs("error", 4000, 4352, 0.0157, 12.3),
)
"""As on a CPU with AMX."""


def evidence(verdict: ProofVerdict, reference_share: float = 0.0) -> Evidence:
    """Kernel evidence with this verdict; UNKNOWN, because nothing was counted."""
    is_fp32 = verdict in (ProofVerdict.FP32, ProofVerdict.NOT_FP32)
    share, counted = BF16_SHARES.get(verdict, 0.0), None if verdict is ProofVerdict.UNKNOWN else 1.0
    decided, level = (ProofSource.BOTH,), CanaryLevel.FP32 if is_fp32 else CanaryLevel.BF16
    ran = "fp32" if verdict in (ProofVerdict.FP32, ProofVerdict.NOT_ACTIVE) else "bf16"
    linear = ClassVerdict(OperatorClass.LINEAR, 0.9, share, (ran,), decided, ERRORS[level], level)
    return Evidence(
        requested="fp32" if is_fp32 else "bf16",
        bf16_method=None,
        verdict=verdict,
        reason=REASONS.get(verdict),
        iterations=2,
        seconds=1.0,
        compute_seconds=0.9,
        compute_bf16_share=share,
        unattributed_share=0.0,
        reference_share=reference_share,
        reference_kernels=("ref:any",) if reference_share else (),
        classes=(linear,),
        by_implementation=(),
        by_precision=(),
        by_operator=(),
        operators=(),
        onednn_version="3.7.1",
        onednn_isa="",
        blas="",
        log_source=LogSource.RUNTIME_SWITCH,
        problems=(),
        coverage=Coverage(1000, counted, 1.0),
        products=(WRONG_CONV,) if verdict is ProofVerdict.WRONG_RESULTS else (),
    )


def timing(seconds: Sequence[float]) -> Timing:
    series = Series(LATENCY, tuple(seconds))
    return Timing(9.0, (2.0, 1.5), (series,), LATENCY, "settled", "interval")


def make(
    seconds: Sequence[float] | None,
    *,
    workload: str = "toy",
    setting: Setting | None = None,
    group: int = 0,
    round: int = 0,
    error: str | None = None,
    kind: str = "WorkerError",
    level: CanaryLevel | None = None,
    bf16_method: str = "autocast",
    **changes: Any,
) -> Run:
    """A run with these steady samples; with ``error`` it failed, without samples nothing could be timed.

    ``changes`` replaces fields of the report.
    """
    setting = setting or Setting()
    if error is not None:
        return Run(workload, group, setting, round, STARTED, STARTED, None, error, kind)
    bf16 = setting.precision == "bf16"
    checked = canary(level or (CanaryLevel.BF16 if bf16 else CanaryLevel.FP32))
    report = RunReport(
        workload=workload,
        title="a toy",
        unit="rows",
        prepared=Prepared(resolved(setting, bf16_method), WEIGHTS),
        provenance=Provenance(MACHINE),
        plan=Plan(),
        items=(),
        import_seconds=1.0,
        build_seconds=1.0,
        compile_seconds=None,
        switches=(),
        timing=timing(seconds) if seconds else None,
        usage=None,
        observed=Observed(canary=checked, canary_verdict=checked.verdict(setting.precision)),
        peak_memory=1 << 30,
    )
    return Run(workload, group, setting, round, STARTED, STARTED, changed(report, **changes))


def changed(report: T, **changes: Any) -> T:
    """A copy of a report, or of an assignment, in which fields have other values, those of its records included."""
    own = {name: value for name, value in changes.items() if name in report.__struct_fields__}
    for place in ("prepared", "provenance", "observed"):
        record = getattr(report, place, None)
        inner = {} if record is None else {name: changes[name] for name in changes if name in record.__struct_fields__}
        if inner:
            own[place] = replace(record, **inner)
    assert len(own) >= 1 or not changes, f"no field is called {', '.join(changes)}"
    return replace(report, **own)


def resolved(setting: Setting, bf16_method: str) -> ResolvedSetting:
    """``setting`` as a worker would resolve it."""
    values = {**asdict(setting), "batch": setting.batch or 4, "threads": setting.threads or 1}
    if setting.precision == "bf16":
        values["bf16_method"] = setting.bf16_method or bf16_method
    return ResolvedSetting(**values)


def warning(code: str, message: str = "a message", hint: str = "a hint") -> WarningMessage:
    return WarningMessage(code, message, hint, {})


def result_of(*runs: Run, requested: Sequence[SettingRequest] | None = None) -> Result:
    """A result that holds ``runs``.

    Without ``requested``, each workload and setting is a group, in the order of their first runs.
    """
    if requested is not None:
        return Result(("modelzoo", "run"), STARTED, tuple(requested), runs)
    groups: list[SettingRequest] = []
    placed = []
    for run in runs:
        entry = SettingRequest(run.workload, run.requested)
        if entry not in groups:
            groups.append(entry)
        placed.append(replace(run, group=groups.index(entry)))
    return Result(("modelzoo", "run"), STARTED, tuple(groups), tuple(placed))


def shown(*runs: Run) -> list[SummaryRow]:
    return summary.rows(result_of(*runs))


def judgement(verdict: ValidityVerdict, reference: float = 88.0, tested: float = 87.0) -> ValidityEntry:
    """A judgement of predictions by F1, 88 and 87 of 100."""
    (entry, *_) = store.read(DATA / "results" / "bert.json").validity
    found = replace(entry.report.validity, verdict=verdict, metric="f1", reference=reference, tested=tested)
    return replace(entry, report=replace(entry.report, validity=found))

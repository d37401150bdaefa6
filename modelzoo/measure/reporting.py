"""What a worker reports of the setting that it ran, with the warnings of the run: what may distort its numbers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from statistics import median

from modelzoo import stats
from modelzoo.engines.protocol import Engine
from modelzoo.machine.ceilings import roofline_bound
from modelzoo.machine.diagnosis import (
    forced_kernels,
    frozen_bf16_warnings,
    library_warnings,
    saturation_warnings,
    slow_bf16_warnings,
    slow_linear_warnings,
    system_warnings,
    thread_warnings,
    usage_warnings,
)
from modelzoo.machine.environment import FAST_MATH_VARIABLES
from modelzoo.measure import sampler
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.profile import Bound, Ceilings, Flops
from modelzoo.records.protocol import Assignment
from modelzoo.records.run import Provenance, RunReport
from modelzoo.records.run_report import Compilation
from modelzoo.records.timing import DEVICE, Timing, model_times
from modelzoo.records.workload import WeightsKind
from modelzoo.setting import BACKEND_VARIABLE, ResolvedSetting
from modelzoo.warning import WarningCode, WarningMessage, warning_for
from modelzoo.workload.discovery import imported_sha256

LINEAR_SHARE = 0.1
"""Part of a pass from which on slow Linear layers are worth a warning."""


MOST_CORES, OTHER_CORES = 1.1, 0.25
"""More cores than this many times the threads, plus this, are busy only if there are more threads than were asked for:
the other threads of a worker do next to nothing while it samples."""


def provenance(assignment: Assignment, engine: Engine, machine: Machine, cpus: Collection[int]) -> Provenance:
    """What this process runs ``assignment`` with; ``machine`` and ``cpus`` as they were before anything was loaded."""
    return Provenance(
        machine=machine,
        engine=engine.name,
        versions=dict(engine.versions()),
        digest=imported_sha256(Path(assignment.directory)),
        libraries=engine.libraries(),
        fingerprint=fingerprint(machine),
        cpus=tuple(sorted(cpus)),
        environment=assignment.environment,
    )


def first_answer(made: Compilation | None, timing: Timing | None) -> float | None:
    """Seconds from the loaded weights to the first output: one that was part of compiling, or the first timed call."""
    if timing is None:
        return None
    if made is None:
        return timing.cold_start
    return made.seconds + timing.cold_start if made.first_answer is None else made.first_answer


def bound(
    flops: Flops | None, timing: Timing | None, ceilings: Ceilings | None, setting: ResolvedSetting
) -> Bound | None:
    """How near the run came to the ceilings; on an accelerator by the time on the device, if its events tell that."""
    if flops is None or flops.whole is None or timing is None or ceilings is None:
        return None
    seconds = median(timing.values(DEVICE) or model_times(timing))
    threads = setting.threads if ceilings.device is None else None
    return roofline_bound(flops.whole, flops.bytes, seconds, ceilings, setting.precision, threads)


def run_warnings(report: RunReport) -> tuple[WarningMessage, ...]:
    """Every warning that a finished report gives rise to, in the order of the report."""
    return (
        *_switch_warnings(report),
        *_weights_warnings(report),
        *_environment_warnings(report),
        *_precision_warnings(report),
        *_agreement_warnings(report),
        *_machine_warnings(report),
        *_timing_warnings(report),
        *report.observed.warnings,
        *(report.observed.evidence.warnings if report.observed.evidence is not None else ()),
    )


def _switch_warnings(report: RunReport) -> Iterator[WarningMessage]:
    """What the label of the setting does not say."""
    codes = {
        "threads": WarningCode.OTHER_THREADS,
        "precision": WarningCode.OTHER_PRECISION,
        "kernels": WarningCode.OTHER_SWITCHES,
    }
    for kind, code in codes.items():
        changed = [f"{each.name} was {each.found}" for each in report.changed_switches if each.kind == kind]
        asked = [each.asked for each in report.changed_switches if each.kind == kind]
        if changed:
            detail = f"after the last sample {', '.join(changed)}, not {', '.join(asked)}"
            yield warning_for(code, detail=detail)
    threads, cores = report.setting.threads, report.busy_cores
    is_alone = report.setting.device == "cpu" and report.pipeline is None
    if is_alone and cores is not None and cores > MOST_CORES * threads + OTHER_CORES:
        detail = f"{threads} may keep no more than {threads} cores busy, and {cores:.2f} were while it sampled"
        yield warning_for(WarningCode.OTHER_THREADS, detail=detail)


def _weights_warnings(report: RunReport) -> Iterator[WarningMessage]:
    if report.prepared.export is not None:
        yield from report.prepared.export.warnings
    if report.prepared.weights.kind is not WeightsKind.RANDOM:
        return
    problem = report.prepared.weights.problem
    if problem is None:
        yield warning_for(WarningCode.RANDOM_WEIGHTS)
    else:
        yield warning_for(WarningCode.MISSING_WEIGHTS, reason=problem)
    for count in report.observed.counts:
        if not count.is_typical:
            yield warning_for(
                WarningCode.MISMATCHED_COUNTS,
                what=count.name,
                seen=f"{count.value:.0f}",
                low=f"{count.low:.0f}",
                high=f"{count.high:.0f}",
            )


def _environment_warnings(report: RunReport) -> Iterator[WarningMessage]:
    removed = sorted(report.provenance.environment.removed.items())
    names = ", ".join(f"{name}={value}" for name, value in removed if name in FAST_MATH_VARIABLES)
    if names:
        yield warning_for(WarningCode.SCRUBBED_VARIABLES, names=names)
    backend = report.setting.backend
    if backend != "auto" and backend == os.environ.get(BACKEND_VARIABLE):
        meaning = "oneDNN is off" if backend == "blas" else "oneDNN is on"
        yield warning_for(WarningCode.BACKEND_VARIABLE, value=backend, meaning=meaning)
    policy = os.environ.get("OMP_WAIT_POLICY")
    if policy:
        yield warning_for(WarningCode.WAIT_POLICY, value=policy)
    if report.setting.thp == "on" and report.usage is not None and report.usage.huge_pages == 0:
        yield warning_for(WarningCode.HUGE_PAGES_UNUSED)


def _precision_warnings(report: RunReport) -> Iterator[WarningMessage]:
    setting, canary = report.setting, report.observed.canary
    detail = canary.summary if canary is not None else ""
    evidence = report.observed.evidence
    is_replayed = evidence is not None and evidence.is_replayed
    is_inexact = canary is not None and report.observed.canary_verdict is not CanaryVerdict.FP32
    if setting.precision == "fp32" and is_inexact and not is_replayed:
        yield warning_for(WarningCode.FP32_NOT_FP32, detail=detail)
    if setting.precision == "fp32":
        if report.ceilings is not None and setting.device == "cpu" and _has_blas_linear(report):
            yield from slow_linear_warnings(report.ceilings)
        return
    if setting.precision == "bf16" and not report.provenance.machine.has_bf16 and setting.device == "cpu":
        features = ", ".join(report.provenance.machine.features) or "none known"
        yield warning_for(WarningCode.NO_BF16_HARDWARE, features=features)
    if setting.precision == "bf16" and report.ceilings is not None and setting.device == "cpu":
        yield from slow_bf16_warnings(report.provenance.machine, report.ceilings)
    if canary is not None and report.observed.canary_verdict is not CanaryVerdict.ACTIVE:
        partly = report.observed.canary_verdict is CanaryVerdict.PARTLY
        code = WarningCode.BF16_PARTLY if partly else WarningCode.BF16_NOT_ACTIVE
        method = setting.method or "a switch of the libraries"
        yield warning_for(code, precision=setting.precision, method=method, detail=detail)


def _has_blas_linear(report: RunReport) -> bool:
    """Whether Linear layers took much of the pass and ran in a BLAS that the user did not choose."""
    evidence = report.observed.evidence
    if evidence is None or report.setting.engine != "torch" or report.setting.backend == "blas":
        return False
    seconds = sum(
        use.seconds
        for use in evidence.operators
        if use.operator_class is OperatorClass.LINEAR and not use.implementation.startswith("oneDNN")
    )
    return seconds >= LINEAR_SHARE * evidence.seconds


def _agreement_warnings(report: RunReport) -> Iterator[WarningMessage]:
    if report.observed.agreement is None or report.observed.agreement.is_same is not False:
        return
    if report.prepared.export is None:
        advice = f"use another mode than {report.setting.mode}"
    else:
        advice = f"remove {report.prepared.export.path} to export it again, and report it if it stays so"
    yield warning_for(WarningCode.OTHER_OUTPUTS, engine=report.provenance.engine, advice=advice)


def _machine_warnings(report: RunReport) -> Iterator[WarningMessage]:
    machine, threads = report.provenance.machine, report.setting.threads
    if machine.emulator:
        yield warning_for(WarningCode.EMULATED)
    else:
        yield from system_warnings(machine)
    if report.provenance.libraries is not None:
        yield from forced_kernels(machine.environment, report.provenance.libraries)
        yield from library_warnings(report.provenance.libraries)
        yield from thread_warnings(report.provenance.libraries, machine, threads)
        yield from frozen_bf16_warnings(report.provenance.libraries, machine, report.setting)
    yield from saturation_warnings(machine, report.setting)
    if threads > machine.threads.count:
        yield warning_for(WarningCode.OVERSUBSCRIBED, threads=threads, cores=machine.threads.count)
    if report.usage is not None:
        yield from usage_warnings(report.usage, machine)


def _timing_warnings(report: RunReport) -> Iterator[WarningMessage]:
    timing, used = report.timing, report.accelerator
    if timing is None:
        return
    samples = timing.steady
    if timing.warmup_end == "cap":
        yield warning_for(WarningCode.WARMUP_CAP, seconds=sampler.WARMUP_MAX_SECONDS, count=len(timing.warmup))
    if len(samples) < sampler.MIN_SAMPLES:
        yield warning_for(WarningCode.FEW_SAMPLES, count=len(samples))
    outliers = stats.outliers(samples)
    if outliers:
        yield warning_for(WarningCode.OUTLIERS, count=outliers, total=len(samples))
    if used is not None and used.throttled_samples:
        reasons = ", ".join(dict.fromkeys(reason for reading in used.readings for reason in reading.throttled))
        share = min(100, 100 * len(used.throttled_samples) / max(1, len(samples)))
        yield warning_for(WarningCode.DEVICE_THROTTLED, device=used.device.name, reasons=reasons, share=share)

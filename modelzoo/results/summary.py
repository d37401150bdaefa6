"""From runs to the rows of the table and the ``[TARGET]`` lines. Pure, and without torch."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo import stats
from modelzoo.formatting import significant
from modelzoo.frozen import replace
from modelzoo.records.agreement import OutputAgreement
from modelzoo.records.design import Ending
from modelzoo.records.evidence import REFERENCE_SHARE, ProofVerdict
from modelzoo.records.run import Result, Run, RunReport, ValidityEntry, ValidityReport
from modelzoo.results.adjustment import adjustment
from modelzoo.results.agreement import agreement_of
from modelzoo.results.proof import Proof, merged_proof
from modelzoo.results.spans import Spans, spans_of
from modelzoo.results.speed import Speed, speeds
from modelzoo.setting import labels
from modelzoo.warning import WarningCode, WarningMessage, warning_for

SPREAD = 0.1
"""Processes whose medians spread over more than this fraction of their median cause a warning; the same limit at
which torch.utils.benchmark warns of a measurement's spread."""


@dataclass(frozen=True)
class SummaryRow:
    """One workload under one setting.

    Attributes:
        asked: label of the setting as asked for.
        label: label of the setting as it was run, with the bf16 method that was chosen.
        batch: items per forward pass; 0 if it was left open and nothing ran.
        processes: how many processes were timed.
        failed: how many processes failed.
        samples: number of steady samples of all processes.
        latency: seconds of one forward batch in this session, with its interval: the geometric mean of the processes'
            medians; ``None`` if nothing was timed.
        adjusted: the latency at this machine's reference speed, with its interval; ``None`` if it was not adjusted.
        throughput: items per second.
        cold_start: median seconds of the first call.
        percentiles: of the samples, in seconds, by name (``p90``).
        speed: compared with the workload's first setting; ``None`` for that one, and if nothing was timed.
        canary: verdict of the canary; several, if the processes disagree.
        canary_summary: the canary's errors.
        proof: what the kernel evidence of all processes says, as a sentence.
        proof_verdict: the least favourable verdict of all processes; ``None`` if there is no evidence.
        reference_share: the largest share of the time in reference kernels.
        limit: how close the run came to the machine's measured ceiling, as a sentence.
        valid: verdict on the predictions.
        valid_detail: its reason and scope.
        weights: the kind of weights.
        peak_memory: of the largest process, in bytes.
        errors: why processes failed.
        agreement: how far an engine's outputs are from torch's; ``None`` if they were not compared.
        spans: issue and device time on an accelerator; ``None`` on a CPU.
        in_flight: batches in the pipeline of the workload's stages, if it was timed; ``None``: the model alone was.
        is_baseline: whether this is the setting that the workload's other settings are compared with.
    """

    workload: str
    asked: str
    label: str
    precision: str
    batch: int
    unit: str
    processes: int
    failed: int
    samples: int
    latency: Optional[stats.Interval]
    throughput: Optional[float]
    cold_start: Optional[float]
    compile_seconds: Optional[float]
    percentiles: dict[str, float]
    speed: Optional[Speed]
    canary: str
    canary_summary: str
    proof: str
    proof_verdict: Optional[ProofVerdict]
    reference_share: float
    limit: str
    valid: str
    valid_detail: str
    weights: str
    peak_memory: int
    warnings: tuple[WarningMessage, ...]
    errors: tuple[str, ...]
    agreement: Optional[OutputAgreement] = None
    is_baseline: bool = False
    in_flight: Optional[int] = None
    adjusted: Optional[stats.Interval] = None
    spans: Optional[Spans] = None


def rows(result: Result) -> list[SummaryRow]:
    """Return one row per workload and setting that has runs; a workload's first setting is its baseline."""
    judged, run_labels, compared = result.judged(), labels_as_run(result), speeds(result)
    adjusted = adjustment(result).latencies
    workloads = [asked.workload for asked in result.asked]
    found: list[SummaryRow] = []
    for group, runs in result.groups().items():
        workload = workloads[group]
        timed = [run.steady for run in runs if run.steady]
        latency = stats.setting_interval(timed, by_precision=by_precision(result, workload)) if timed else None
        names = (result.label(group), run_labels[group])
        row = _row(runs, names, latency, compared.get(group), judged.get(group))
        found.append(replace(row, is_baseline=group == workloads.index(workload), adjusted=adjusted.get(group)))
    return found


def by_precision(result: Result, workload: str) -> bool:
    """Whether sampling ended because the intervals of ``workload`` were narrow enough."""
    design = result.design(workload)
    return design is not None and design.ending is Ending.PRECISE


def labels_as_run(result: Result) -> list[str]:
    """The label of each group, with the bf16 method that its first finished run resolved."""
    resolved = [entry.setting for entry in result.asked]
    for run in reversed(result.runs):
        if run.report is not None:
            method = run.report.setting.bf16_method
            resolved[run.group] = resolved[run.group].replace(bf16_method=method)
    found = [""] * len(resolved)
    for workload in {entry.workload for entry in result.asked}:
        groups = [group for group, entry in enumerate(result.asked) if entry.workload == workload]
        for group, label in zip(groups, labels([resolved[group] for group in groups])):
            found[group] = label
    return found


def _row(
    runs: Sequence[Run],
    names: tuple[str, str],
    latency: Optional[stats.Interval],
    speed: Optional[Speed],
    judged: Optional[ValidityEntry],
) -> SummaryRow:
    timed = [run for run in runs if run.steady]
    reports = [run.report for run in runs if run.report is not None]
    first = reports[0] if reports else None
    asked = runs[0].asked
    batch = first.setting.batch if first is not None else asked.batch or 0
    samples = [sample for run in timed for sample in run.steady]
    valid, valid_detail = validity_text(judged)
    proof = merged_proof(reports)
    return SummaryRow(
        workload=runs[0].workload,
        asked=names[0],
        label=names[1],
        precision=asked.precision,
        batch=batch,
        unit=first.unit if first is not None else "",
        processes=len(timed),
        failed=sum(run.error is not None for run in runs),
        samples=len(samples),
        latency=latency,
        throughput=batch / latency.value if latency else None,
        cold_start=_cold_start(reports),
        compile_seconds=first.compile_seconds if first is not None else None,
        percentiles=stats.percentiles(samples),
        speed=speed,
        canary=proof.canary,
        canary_summary=proof.canary_summary,
        proof=proof.sentence,
        proof_verdict=proof.verdict,
        reference_share=proof.reference_share,
        limit=limit_text(reports),
        valid=valid,
        valid_detail=valid_detail,
        weights=first.weights.kind.value if first is not None else "",
        peak_memory=max((report.peak_memory for report in reports), default=0),
        warnings=_warnings(runs, timed, proof),
        errors=tuple(dict.fromkeys(run.error for run in runs if run.error)),
        agreement=agreement_of(reports),
        in_flight=asked.in_flight,
        spans=spans_of(runs),
    )


def _cold_start(reports: Sequence[RunReport]) -> Optional[float]:
    """The median of the first calls of the processes that were timed."""
    found = [report.timing.cold_start for report in reports if report.timing is not None and report.timing.steady]
    return statistics.median(found) if found else None


# Text


def validity_text(judged: Optional[ValidityEntry]) -> tuple[str, str]:
    """Return a stored judgement in a few words and in a sentence; empty if nothing was judged."""
    if judged is None:
        return "", ""
    if judged.report is None:
        return "CANNOT JUDGE", judged.error or ""
    found = judged.report.validity
    values = " | ".join(significant(value) for value in (found.reference, found.tested) if value is not None)
    verdict = found.verdict.value
    return f"{verdict}: {found.metric} {values}" if values else verdict, "; ".join(
        filter(None, (found.reason, found.scope, _reference_text(judged.report)))
    )


def _reference_text(report: ValidityReport) -> str:
    """Where the reference ran, if that was not the CPU."""
    setting = report.reference.setting if report.reference is not None else None
    if setting is None or setting.device == "cpu":
        return ""
    return f"reference: {setting.label} on {setting.device}" + (", TF32 off" if "cuda" in setting.device else "")


def limit_text(reports: Sequence[RunReport]) -> str:
    """Say how close the runs came to the machine's measured ceiling; empty if no operations were counted.

    Operations are counted in one process only, so the first report that has them is used.
    """
    report = next((each for each in reports if each.flops is not None), None)
    if report is None or report.flops is None:
        problem = next((each.flops_problem for each in reports if each.flops_problem), "")
        return f"operations were not counted: {problem}" if problem else ""
    if not report.flops.total:
        return ""
    counted = f"{report.flops.total / 1e9:.1f} GFLOP per batch"
    if report.machine.emulator:
        return counted
    bound = report.bound
    if bound is None:
        device = report.setting.device
        command, whose = ("", "this machine's") if device == "cpu" else (f" --device {device}", f"{device}'s")
        return f"{counted}; run 'modelzoo doctor{command}' once to compare it with {whose} ceiling"
    text = f"{counted}, {bound.gflops:.0f} GFLOP/s"
    if bound.share_of_ceiling is not None:
        whose = "this machine's" if report.accelerator is None else f"{report.accelerator.device.name}'s"
        text += f", {bound.share_of_ceiling:.0%} of {whose} measured {bound.precision} ceiling"
    return text + (f", bound by {bound.bound_by.value}" if bound.bound_by else "")


def unproven(found: Sequence[SummaryRow]) -> list[str]:
    """Return what ``--strict`` objects to, one line each: a precision that is not proven, a reference kernel."""
    reasons = []
    for row in found:
        name = f"{row.workload} {row.label}"
        if row.errors and not row.processes:
            continue
        wanted = ProofVerdict.FP32 if row.precision == "fp32" else ProofVerdict.ACTIVE
        if row.proof_verdict is not wanted:
            reasons.append(f"{name}: {row.proof or 'no kernel evidence was taken (--no-audit?)'}")
        if row.reference_share > REFERENCE_SHARE:
            reasons.append(f"{name}: reference kernels took {row.reference_share:.1%} of the time")
    return reasons


def target_lines(found: Sequence[SummaryRow]) -> list[str]:
    """Return ``[TARGET] <workload> Time <seconds>`` for every row that was timed.

    A workload's baseline carries its plain name, which no other setting gets, even if the baseline failed; the others
    append their label (``resnet50-bf16``). The plain name stands for the model alone: with stages, a baseline is called
    ``resnet50-stages``.
    """
    return [
        f"[TARGET] {_target_name(row)} Time {significant(row.latency.value)}"
        for row in found
        if row.latency is not None
    ]


def _target_name(row: SummaryRow) -> str:
    """A name without spaces: ``toy-fp32-2`` for the label ``fp32 #2``."""
    if not row.is_baseline:
        return f"{row.workload}-{re.sub(r'[ =#]+', '-', row.asked)}"
    if row.in_flight is None:
        return row.workload
    return f"{row.workload}-stages" if row.in_flight == 1 else f"{row.workload}-in-flight-{row.in_flight}"


# Warnings


def _warnings(runs: Sequence[Run], timed: Sequence[Run], proof: Proof) -> tuple[WarningMessage, ...]:
    disagreement = (proof.warning,) if proof.warning is not None else ()
    return (*_merged_warnings(runs), *disagreement, *_between_processes(timed))


def _merged_warnings(runs: Sequence[Run]) -> list[WarningMessage]:
    """Each warning code once: the first process's message, and in how many of those that were checked it occurred."""
    reports = [run.report for run in runs if run.report is not None]
    seen: dict[str, list[WarningMessage]] = {}
    for report in reports:
        for code, warning in {each.code: each for each in reversed(report.warnings)}.items():
            seen.setdefault(code, []).append(warning)
    merged = []
    for code, found in seen.items():
        checked = sum(_is_checked(report, code) for report in reports)
        several = f" (in {len(found)} of {checked} processes)" if len(found) < checked else ""
        merged.append(WarningMessage(code, found[0].message + several, found[0].hint))
    return merged


def _is_checked(report: RunReport, code: str) -> bool:
    """Whether the process would have warned of ``code``: only the first ones of a setting count and are audited."""
    if code == WarningCode.MISMATCHED_COUNTS.name:
        return bool(report.counts)
    if code == WarningCode.REFERENCE_KERNELS.name:
        return report.evidence is not None
    return True


def _between_processes(timed: Sequence[Run]) -> list[WarningMessage]:
    if len(timed) == 1:
        return [warning_for(WarningCode.ONE_PROCESS)]
    if not timed:
        return []
    medians = [statistics.median(run.steady) for run in timed]
    odd = stats.odd_process(medians)
    if odd is not None:
        others = stats.geometric_mean([*medians[:odd], *medians[odd + 1 :]])
        off = medians[odd] / others - 1
        if abs(off) > stats.EQUIVALENCE:
            direction = "slower" if off > 0 else "faster"
            values = {"number": odd + 1, "count": len(medians), "percent": 100 * abs(off), "direction": direction}
            return [warning_for(WarningCode.ODD_PROCESS, **values)]
    spread = (max(medians) - min(medians)) / statistics.median(medians)
    return [warning_for(WarningCode.PROCESSES_DIFFER, percent=100 * spread)] if spread > SPREAD else []

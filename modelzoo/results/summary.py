"""From runs to rows: what the table and the ``[TARGET]`` lines say. Pure, and without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Any

from modelzoo import stats
from modelzoo.formatting import significant
from modelzoo.records.canary import Canary
from modelzoo.records.codec import decode
from modelzoo.records.evidence import REFERENCE_SHARE
from modelzoo.results.store import Key, Run
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for

SPREAD = 0.1
"""Processes whose medians spread over more than this share of their median are warned of; the same
limit at which torch.utils.benchmark warns of a measurement's spread."""

WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, say) differ by more than this share did different work. Rounding moves a
few boxes over a threshold; a quarter of them is no rounding."""


@dataclass(frozen=True)
class Row:
    """One workload under one setting.

    ``asked`` is the setting's short name as it was asked for, ``label`` as it was run (with the way of bf16).
    ``latency`` is the median seconds of one forward batch with its interval, ``None`` where nothing
    could be timed; ``throughput`` is items per second; ``speedup`` is against the workload's first setting.
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
    latency: stats.Interval | None
    throughput: float | None
    cold: float | None
    compile_seconds: float | None
    percentiles: dict[str, float]
    speedup: stats.Interval | None
    verdict: stats.Verdict | None
    canary: str
    canary_summary: str
    proof: str
    proof_verdict: str
    reference_share: float
    limit: str
    valid: str
    valid_detail: str
    weights: str
    peak_memory: int
    advice: tuple[WarningMessage, ...]
    errors: tuple[str, ...]


def rows(groups: Mapping[Key, list[Run]], judged: Mapping[Key, dict[str, Any]] = MappingProxyType({})) -> list[Row]:
    """One row for each workload and setting; the first setting of a workload is its baseline.

    ``judged`` holds the stored judgements, under the same keys as ``groups``.
    """
    found: list[Row] = []
    baselines: dict[str, list[Run]] = {}
    for key, runs in groups.items():
        baseline = baselines.setdefault(key[0], runs)
        found.append(_row(runs, None if baseline is runs else baseline, judged.get(key)))
    return found


def _row(runs: Sequence[Run], baseline: Sequence[Run] | None, judged: dict[str, Any] | None) -> Row:
    timed = [run for run in runs if run.steady]
    reports = [run.report for run in runs if run.report is not None]
    first: dict[str, Any] = reports[0] if reports else {}
    asked = Setting(**runs[0].asked)
    latency = stats.setting_interval([run.steady for run in timed]) if timed else None
    speedup = verdict = None
    if baseline is not None and timed:
        speedup, verdict = _against(baseline, timed, first)
    batch = first.get("setting", {}).get("batch") or asked.batch or 0
    bf16_method = first.get("setting", {}).get("bf16_method")
    evidence = first.get("evidence") or {}
    valid, valid_detail = valid_words(judged)
    samples = [sample for run in timed for sample in run.steady]
    return Row(
        workload=runs[0].workload,
        asked=asked.label,
        label=asked.replace(bf16_method=bf16_method).label if bf16_method else asked.label,
        precision=asked.precision,
        batch=batch,
        unit=first.get("unit", ""),
        processes=len(timed),
        failed=sum(run.error is not None for run in runs),
        samples=len(samples),
        latency=latency,
        throughput=batch / latency.value if latency else None,
        cold=median([run.report["phases"]["cold"] for run in timed if run.report]) if timed else None,
        compile_seconds=first.get("compile_seconds"),
        percentiles=stats.percentiles(samples),
        speedup=speedup,
        verdict=verdict,
        canary=first.get("canary_word", ""),
        canary_summary=decode(Canary, first["canary"]).summary if first else "",
        proof=evidence.get("line", ""),
        proof_verdict=evidence.get("verdict", ""),
        reference_share=evidence.get("reference_share", 0.0),
        limit=limit_words(first),
        valid=valid,
        valid_detail=valid_detail,
        weights=first.get("weights", {}).get("kind", ""),
        peak_memory=max((report["peak_memory"] for report in reports), default=0),
        advice=(*_merged(runs), *_between(timed)),
        errors=tuple(dict.fromkeys(run.error for run in runs if run.error)),
    )


def valid_words(judged: dict[str, Any] | None) -> tuple[str, str]:
    """A stored judgement in a few words and in a sentence; empty where nothing was judged."""
    if judged is None:
        return "", ""
    if judged["report"] is None:
        return "CANNOT JUDGE", judged["error"]
    found = judged["report"]["validity"]
    values = " | ".join(significant(value) for value in (found["reference"], found["tested"]) if value is not None)
    words = f"{found['verdict']}: {found['metric']} {values}" if values else found["verdict"]
    return words, "; ".join(filter(None, (found["reason"], found["scope"])))


def limit_words(report: dict[str, Any]) -> str:
    """How near the run came to the machine's measured limit, in words; empty where nothing was counted."""
    if not report or not report.get("flops"):
        return ""
    counted = f"{report['flops']['total'] / 1e9:.1f} GFLOP a batch"
    if report["machine"]["emulator"]:
        return counted
    bound = report.get("bound")
    if not bound:
        return f"{counted}; its share of this machine's limit is shown once 'modelzoo doctor' has measured that"
    words = f"{counted}, {bound['gflops']:.0f} GFLOP/s"
    if bound["share_of_ceiling"] is not None:
        words += f", {bound['share_of_ceiling']:.0%} of this machine's measured {bound['precision']} ceiling"
    limit = bound.get("bound_by", bound.get("word"))  # "word" in results of format 1
    return words + (f", bound by {limit}" if limit else "")


def _against(
    baseline: Sequence[Run], timed: Sequence[Run], first: dict[str, Any]
) -> tuple[stats.Interval | None, stats.Verdict]:
    """The ratio by rounds that both sides have, or the reason why there is none."""
    refused = not_comparable(baseline, first)
    if refused:
        return None, stats.Verdict(stats.SpeedVerdict.REFUSED, refused)
    other = {run.round: run.steady for run in baseline if run.steady}
    own = {run.round: run.steady for run in timed}
    shared = sorted(set(other) & set(own))
    if not shared:
        return None, stats.Verdict(stats.SpeedVerdict.AMBIGUOUS, "the baseline has no runs")
    return stats.compare([other[i] for i in shared], [own[i] for i in shared], paired=True)


def not_comparable(baseline: Sequence[Run], report: dict[str, Any]) -> str:
    """Why a speedup over ``baseline`` would mean nothing; empty where it means something."""
    reports = [run.report for run in baseline if run.report is not None]
    if not reports:
        return ""
    base = reports[0]
    if base["setting"]["precision"] == "fp32" and base["canary_word"] != "fp32":
        return f"the fp32 baseline is not fp32 by the canary: {decode(Canary, base['canary']).summary}"
    evidence = base.get("evidence") or {}
    if evidence.get("verdict") == "NOT_FP32":
        return f"the fp32 baseline is not fp32 by its kernels: {evidence['line']}"
    if report and base["weights"]["sha256"] != report["weights"]["sha256"]:
        return "the two sides ran different weights"
    for mine, other in zip(base["counts"], report["counts"] if report else ()):
        if abs(other["value"] - mine["value"]) > WORK_DIFFERENCE * max(mine["value"], other["value"]):
            return f"the two sides did different work: {mine['name']} {mine['value']:.0f} and {other['value']:.0f}"
    return ""


def _merged(runs: Sequence[Run]) -> list[WarningMessage]:
    """Each warning code once: the first run's words, and in how many runs it was given."""
    seen: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        for item in run.advice:
            seen.setdefault(item["code"], []).append(item)
    merged = []
    for code, items in seen.items():
        several = f" (in {len(items)} of {len(runs)} processes)" if 1 < len(runs) != len(items) else ""
        merged.append(WarningMessage(code, items[0]["message"] + several, items[0]["hint"]))
    return merged


def _between(timed: Sequence[Run]) -> list[WarningMessage]:
    if len(timed) == 1:
        return [warning_for(WarningCode.ONE_PROCESS)]
    if not timed:
        return []
    medians = [median(run.steady) for run in timed]
    spread = (max(medians) - min(medians)) / median(medians)
    return [warning_for(WarningCode.PROCESSES_DIFFER, percent=100 * spread)] if spread > SPREAD else []


def target_lines(found: Sequence[Row]) -> list[str]:
    """``[TARGET] <workload> Time <seconds>`` for every row that was timed.

    A workload's first setting carries its plain name; others append what differs (``resnet50-bf16``).
    """
    lines: list[str] = []
    seen: set[str] = set()
    for row in found:
        # A first setting that failed keeps its name to itself: another's time must not be taken for its.
        name = row.workload
        if name in seen:
            name = f"{name}-{row.asked.replace(' ', '-').replace('=', '-')}"
        seen.add(row.workload)
        if row.latency is not None:
            lines.append(f"[TARGET] {name} Time {significant(row.latency.value)}")
    return lines


def unproven(found: Sequence[Row]) -> list[str]:
    """What ``--strict`` objects to, one line each: a precision not fully proven, a reference kernel."""
    reasons = []
    for row in found:
        name = f"{row.workload} {row.label}"
        if row.errors and not row.processes:
            continue
        wanted = "FP32" if row.precision == "fp32" else "ACTIVE"
        if row.proof_verdict != wanted:
            reasons.append(f"{name}: {row.proof or 'no kernel evidence was taken (--no-audit?)'}")
        if row.reference_share > REFERENCE_SHARE:
            reasons.append(f"{name}: reference kernels took {row.reference_share:.1%} of the time")
    return reasons

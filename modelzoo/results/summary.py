"""From runs to the rows of the table and the ``[TARGET]`` lines. Pure, and without torch."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from modelzoo import stats
from modelzoo.formatting import significant, word
from modelzoo.records.equipment import bound_by_launching
from modelzoo.records.evidence import REFERENCE_SHARE, LogSource, ProofVerdict
from modelzoo.records.run import Result, Run, RunReport, ValidityEntry
from modelzoo.records.timing import DEVICE, ISSUE
from modelzoo.records.workload import OutputAgreement, WeightsKind
from modelzoo.results.parts import GenerationLevels, generation_levels
from modelzoo.results.proof import Proof, merged_proof
from modelzoo.results.refusals import contradictions
from modelzoo.results.speed import Speed, sides_of, speeds
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for


class Spans(msgspec.Struct, frozen=True):
    """Times of one call beside its latency, each the geometric mean of the processes' medians, in seconds.

    Attributes:
        issue: in which the host issued the work.
        device: between the events around it; ``None`` if the device's events tell no time.
        waited: whether the host waited for the device while it issued the work, because copies were timed, too.
        bound_by_launching: whether the call spends its time issuing kernels rather than running them.
    """

    issue: float
    device: float | None
    bound_by_launching: bool
    waited: bool = False


def _median(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [each for each in values if each is not None]
    return statistics.median(known) if known else None


def spans_of(runs: Sequence[Run]) -> Spans | None:
    """The spans of the processes of one setting; ``None`` if they ran on a CPU, or nothing was timed."""
    reports = [run.report for run in runs if run.report is not None]
    timings = [report.timing for report in reports if report.timing is not None]
    medians = [
        [statistics.median(each.values(name)) for each in timings if each.values(name)] for name in (ISSUE, DEVICE)
    ]
    issue, device = (stats.geometric_mean(each) if each else None for each in medians)
    if issue is None:
        return None
    # Seconds of the kernels of one pass, as the profiler saw them on the device.
    audits = [report.observed.evidence for report in reports]
    profiled = (
        each.seconds / each.iterations
        for each in audits
        if each is not None and each.log_source is LogSource.PROFILER and each.iterations
    )
    waited = any(report.setting.include_copies for report in reports)
    bound = device is not None and not waited and bound_by_launching(issue, device, next(profiled, None))
    return Spans(issue, device, bound, waited)


SPREAD = 0.1
"""Processes whose medians spread over more than this fraction of their median cause a warning; the same limit at
which torch.utils.benchmark warns of a measurement's spread."""


class RowWarning(msgspec.Struct, frozen=True):
    """One warning of a setting.

    Attributes:
        warning: of the first process that has it.
        processes: number of processes that have it.
        checked: number of processes that would have it.
    """

    warning: WarningMessage
    processes: int
    checked: int


class SummaryRow(msgspec.Struct, frozen=True):
    """One workload under one setting, with what follows from all of its processes.

    Attributes:
        requested: label of the setting as asked for.
        label: label of the setting as it was run, with the bf16 method or the recipe that was chosen.
        is_baseline: whether this is the setting that the workload's other settings are compared with.
        runs: its processes, failed ones included; at least one.
        latency: seconds of one forward batch (of a language model: of one whole generation) in this session, with its
            interval: the geometric mean of the processes' medians; ``None`` if nothing was timed.
        throughput: items per second, with its interval: the batch size ÷ the geometric mean of the processes' *mean*
            latencies. Latencies are skewed, so their median would promise more than a server delivers.
        speed: compared with the workload's first setting; ``None`` for that one, and if nothing was timed.
        proof: what the canary and the kernels of all processes show.
        judged: the judgement of its predictions; ``None`` if they were not judged.
        spans: issue and device time on an accelerator; ``None`` on a CPU.
        generation: times and rates of a language model's tokens; ``None`` for other models.
        warnings: each code once.
        name: what views call it, in place of what tells it from the other rows; empty: nothing.
    """

    requested: str
    label: str
    is_baseline: bool
    runs: tuple[Run, ...]
    latency: stats.Interval | None
    throughput: stats.Interval | None
    speed: Speed | None
    proof: Proof
    judged: ValidityEntry | None
    spans: Spans | None
    warnings: tuple[RowWarning, ...]
    generation: GenerationLevels | None = None
    name: str = ""

    @property
    def workload(self) -> str:
        return self.runs[0].workload

    @property
    def reports(self) -> list[RunReport]:
        """Those of the processes that did not fail."""
        return [run.report for run in self.runs if run.report is not None]

    @property
    def first(self) -> RunReport | None:
        """The first report; ``None`` if all processes failed."""
        return next(iter(self.reports), None)

    @property
    def setting(self) -> Setting:
        """As it was run; as asked for if nothing ran."""
        return self.first.setting if self.first is not None else self.runs[0].requested

    @property
    def batch(self) -> int:
        """Items per forward pass; 0 if it was left open and nothing ran."""
        return self.setting.batch or 0

    @property
    def unit(self) -> str:
        """What the workload counts (``images``); empty if nothing ran."""
        return self.first.unit if self.first is not None else ""

    @property
    def weights(self) -> WeightsKind | None:
        return self.first.prepared.weights.kind if self.first is not None else None

    @property
    def processes(self) -> int:
        """Number of processes that were timed."""
        return sum(bool(run.steady) for run in self.runs)

    @property
    def failed(self) -> int:
        """Number of processes that failed."""
        return sum(run.error is not None for run in self.runs)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why processes failed, each reason once."""
        return tuple(dict.fromkeys(run.error for run in self.runs if run.error))

    @property
    def samples(self) -> list[float]:
        """The steady samples of all processes."""
        return [sample for run in self.runs for sample in run.steady]

    @property
    def cold_start(self) -> float | None:
        """Median seconds to the first answer of the processes that compiled something, or had nothing to compile."""
        return _median(each.first_answer for each in self.reports if each.compiled_libraries != 0)

    @property
    def warm_start(self) -> float | None:
        """Median seconds to the first answer of the processes that found everything compiled in the cache."""
        return _median(each.first_answer for each in self.reports if each.compiled_libraries == 0)

    @property
    def compile_seconds(self) -> float | None:
        return self.first.compile_seconds if self.first is not None else None

    @property
    def peak_memory(self) -> int:
        """Of the largest process, in bytes."""
        return max((report.peak_memory for report in self.reports), default=0)

    @property
    def weight_bytes(self) -> int | None:
        """Of the model's parameters as they are stored; ``None`` if that is not known."""
        return self.first.weight_bytes if self.first is not None else None

    @property
    def agreement(self) -> OutputAgreement | None:
        """How far the outputs are from torch's in fp32; ``None`` in other precisions, which the task judges, or if they
        were not compared."""
        found = self.proof.outputs
        return found if found is not None and found.has_bound else None

    @property
    def is_proven(self) -> bool:
        """Whether the audit found the precision that was asked for."""
        wanted = ProofVerdict.FP32 if self.setting.precision == "fp32" else ProofVerdict.ACTIVE
        return self.proof.verdict is wanted

    @property
    def used_reference_kernels(self) -> bool:
        """Whether slow reference kernels took a share of the time that matters."""
        return self.proof.reference_share > REFERENCE_SHARE

    @property
    def is_verified(self) -> bool:
        """Whether the precision is proven, without reference kernels that matter; ``--strict`` requires it."""
        return self.is_proven and not self.used_reference_kernels


def rows(result: Result) -> list[SummaryRow]:
    """Return one row per workload and setting that has runs; a workload's first setting is its baseline."""
    run_labels, compared = result.labels_as_run(), speeds(result)
    workloads = [requested.workload for requested in result.requested]
    found: list[SummaryRow] = []
    for group, side in enumerate(sides_of(result)):
        runs, reports, narrow = side.sessions[0], side.reports, result.is_precise(side.workload)
        if not runs:
            continue
        latency = throughput = None
        if timed := [run.steady for run in runs if run.steady]:
            latency = stats.setting_interval(timed, by_precision=narrow)
            mean = stats.setting_interval(timed, by_precision=narrow, centre=statistics.fmean)
            batch = next(run.report.setting.batch for run in runs if run.steady and run.report)
            throughput = stats.inverse(mean, batch)
        proof = merged_proof(reports)
        row = SummaryRow(
            requested=result.label(group),
            label=run_labels[group],
            is_baseline=group == workloads.index(side.workload),
            runs=runs,
            latency=latency,
            throughput=throughput,
            speed=compared.get(group),
            proof=proof,
            judged=side.validity,
            spans=spans_of(runs),
            warnings=_warnings(runs, reports, proof),
            generation=generation_levels(runs, by_precision=narrow),
        )
        found.append(row)
    return found


def is_unproven(row: SummaryRow) -> bool:
    """Whether ``--strict`` objects to a setting: it ran, and its kernels are not verified, or not as its label says."""
    is_as_labelled = row.is_verified and not any(contradictions(row.reports))
    return not (row.errors and not row.processes) and not is_as_labelled


def target_lines(found: Sequence[SummaryRow]) -> list[str]:
    """Return ``[TARGET] <workload> Time <seconds>`` for every row that was timed.

    A workload's baseline carries its plain name, which no other setting gets, even if the baseline failed; the others
    append their label (``resnet50-bf16``). The plain name stands for the model alone: with stages, a baseline is called
    ``resnet50-stages``.
    """
    lines = []
    for row in found:
        name = word(row.workload)  # without spaces: ``toy-fp32-2`` for the label ``fp32 #2``
        if not row.is_baseline:
            name = word(f"{name}-{re.sub('[ =#]+', '-', row.requested)}")
        elif row.setting.stages:
            name = f"{name}-stages"
        if row.latency is not None:
            lines.append(f"[TARGET] {name} Time {significant(row.latency.value)}")
    return lines


# Warnings


def _warnings(runs: Sequence[Run], reports: Sequence[RunReport], proof: Proof) -> tuple[RowWarning, ...]:
    """Each warning code once: the first process's, and in how many of those that were checked it occurred."""
    seen: dict[str, list[WarningMessage]] = {}
    for report in reports:
        for code, warning in {each.code: each for each in reversed(report.warnings)}.items():
            seen.setdefault(code, []).append(warning)
    # Only the first processes of a setting count and are audited.
    checked = {
        WarningCode.MISMATCHED_COUNTS.name: sum(bool(report.observed.counts) for report in reports),
        WarningCode.REFERENCE_KERNELS.name: sum(report.observed.evidence is not None for report in reports),
    }
    count = len(reports)
    found = [RowWarning(each[0], len(each), checked.get(code, count)) for code, each in seen.items()]
    of_all = [*([proof.warning] if proof.warning is not None else []), *_between_processes(runs)]
    return (*found, *(RowWarning(each, count, count) for each in of_all))


def _between_processes(runs: Sequence[Run]) -> list[WarningMessage]:
    timed = [run for run in runs if run.steady]
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
            values = {"number": odd + 1, "count": len(medians), "percent": 100 * abs(off)}
            if off >= 1:
                return [warning_for(WarningCode.STALLED_PROCESS, factor=1 + off, **values)]
            return [warning_for(WarningCode.ODD_PROCESS, direction=direction, **values)]
    spread = (max(medians) - min(medians)) / statistics.median(medians)
    if max(medians) >= 2 * min(medians):
        return [warning_for(WarningCode.PROCESSES_DISAGREE, factor=max(medians) / min(medians), percent=100 * spread)]
    return [warning_for(WarningCode.PROCESSES_DIFFER, percent=100 * spread)] if spread > SPREAD else []

"""What a worker reports of the setting that it ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional, Union

from modelzoo.engines.protocol import Engine
from modelzoo.files import file_sha256
from modelzoo.machine.ceilings import kept_ceilings, kept_device_ceilings, roofline_bound
from modelzoo.machine.facts import fingerprint
from modelzoo.measure.loading import Built
from modelzoo.measure.observing import Observed
from modelzoo.measure.pipeline_trace import TracedBatch
from modelzoo.records.accelerator import AcceleratorUse
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.pipeline import model_times
from modelzoo.records.profile import Bound, Ceilings, Flops
from modelzoo.records.protocol import InstanceJob, MeasureJob
from modelzoo.records.run import RunReport, Turn
from modelzoo.records.timing import DEVICE, Timing
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Workload
from modelzoo.workload.batches import inputs_digest


@dataclass(frozen=True)
class Timed:
    """The samples, what else used the CPUs meanwhile, and when this process sampled."""

    timing: Optional[Timing]
    usage: CpuUsage
    turns: tuple[Turn, ...]
    batches: Sequence[TracedBatch] = ()
    accelerator: Optional[AcceleratorUse] = None


def make_report(
    job: Union[MeasureJob, InstanceJob],
    engine: Engine,
    work: Workload,
    machine: Machine,
    built: Built,
    timed: Timed,
    observed: Observed,
) -> RunReport:
    """Put together what a worker reports; the caller fills in what happened before the model was loaded."""
    setting = job.resolved
    used = timed.accelerator
    ceilings = kept_ceilings(machine) if used is None else kept_device_ceilings(machine, used.device)
    return RunReport(
        workload=work.name,
        title=work.title,
        unit=work.unit,
        setting=setting,
        plan=job.plan,
        weights=job.weights,
        items=tuple(map(str, built.inputs.items)),
        timing=timed.timing,
        import_seconds=0.0,
        build_seconds=built.seconds,
        compile_seconds=built.model.compile_seconds,
        canary=observed.canary,
        canary_verdict=None if observed.canary is None else observed.canary.verdict(setting.precision),
        switches=(),
        environment=job.changes,
        counts=observed.counts,
        peak_memory=observed.peak_memory,
        machine=machine,
        libraries=engine.libraries(),
        usage=timed.usage,
        warnings=(),
        evidence=observed.evidence,
        evidence_problem=observed.evidence_problem,
        flops=observed.flops,
        flops_problem=observed.flops_problem,
        bound=_bound(observed.flops, timed.timing, ceilings, setting),
        ceilings=ceilings,
        profile=observed.profile,
        profile_problem=observed.profile_problem,
        engine=engine.name,
        versions=dict(engine.versions()),
        digest=file_sha256(work.directory / "workload.py"),
        inputs_digest=inputs_digest(built.inputs),
        machine_fingerprint=fingerprint(machine),
        turns=timed.turns,
        kernels=observed.kernels,
        export=job.export,
        pipeline=built.pipeline.record() if built.pipeline is not None else None,
        agreement=observed.agreement,
        agreement_problem=observed.agreement_problem,
        accelerator=used,
    )


def _bound(
    flops: Optional[Flops], timing: Optional[Timing], ceilings: Optional[Ceilings], setting: ResolvedSetting
) -> Optional[Bound]:
    """How near the run came to the ceilings; on an accelerator by the time on the device, if its events tell that."""
    if flops is None or not flops.total or timing is None or ceilings is None:
        return None
    seconds = median(timing.values(DEVICE) or model_times(timing))
    threads = setting.threads if ceilings.device is None else None
    return roofline_bound(flops.total, flops.bytes, seconds, ceilings, setting.precision, threads)

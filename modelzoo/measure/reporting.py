"""What a worker reports of the setting that it ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Optional, Union

from modelzoo.engines.protocol import Engine
from modelzoo.files import file_sha256
from modelzoo.frozen import replace
from modelzoo.machine.ceilings import kept_ceilings, kept_device_ceilings, roofline_bound
from modelzoo.machine.facts import fingerprint
from modelzoo.measure.loading import Built, Imported
from modelzoo.measure.pipeline_trace import TracedBatch
from modelzoo.measure.run_warnings import run_warnings
from modelzoo.records.accelerator import AcceleratorUse
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.pipeline import model_times
from modelzoo.records.profile import Bound, Ceilings, Flops
from modelzoo.records.protocol import Assignment, InstanceJob, MeasureJob
from modelzoo.records.run import Observed, Provenance, RunReport, Turn
from modelzoo.records.timing import DEVICE, Timing
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import inputs_digest


@dataclass(frozen=True)
class Timed:
    """The samples, what else used the CPUs meanwhile, and when this process sampled."""

    timing: Optional[Timing]
    usage: CpuUsage
    turns: tuple[Turn, ...]
    batches: Sequence[TracedBatch] = ()
    accelerator: Optional[AcceleratorUse] = None


def provenance(assignment: Assignment, engine: Engine, machine: Machine, cpus: Collection[int]) -> Provenance:
    """What this process runs ``assignment`` with; ``machine`` and ``cpus`` as they were before anything was loaded."""
    return Provenance(
        machine=machine,
        engine=engine.name,
        versions=dict(engine.versions()),
        digest=file_sha256(Path(assignment.directory) / "workload.py"),
        libraries=engine.libraries(),
        fingerprint=fingerprint(machine),
        cpus=tuple(sorted(cpus)),
        environment=assignment.environment,
    )


def make_report(
    job: Union[MeasureJob, InstanceJob],
    found: Imported,
    switches: tuple[str, ...],
    ran: Provenance,
    built: Built,
    timed: Timed,
    observed: Observed,
    peak: int,
) -> RunReport:
    """Put together what a worker reports.

    Args:
        ran: what it ran with.
        peak: the most memory that the process has occupied.
    """
    work, prepared, used = found.workload, job.assignment.prepared, timed.accelerator
    ceilings = kept_ceilings(ran.machine) if used is None else kept_device_ceilings(ran.machine, used.device)
    report = RunReport(
        workload=work.name,
        title=work.title,
        unit=work.unit,
        prepared=prepared,
        provenance=ran,
        plan=job.plan,
        items=tuple(map(str, built.inputs.items)),
        import_seconds=found.seconds,
        build_seconds=built.seconds,
        compile_seconds=built.model.compile_seconds,
        switches=switches,
        timing=timed.timing,
        usage=timed.usage,
        observed=observed,
        peak_memory=peak,
        inputs_digest=inputs_digest(built.inputs),
        turns=timed.turns,
        pipeline=built.pipeline.record() if built.pipeline is not None else None,
        accelerator=used,
        ceilings=ceilings,
        bound=_bound(observed.flops, timed.timing, ceilings, prepared.setting),
    )
    return replace(report, warnings=run_warnings(report))


def _bound(
    flops: Optional[Flops], timing: Optional[Timing], ceilings: Optional[Ceilings], setting: ResolvedSetting
) -> Optional[Bound]:
    """How near the run came to the ceilings; on an accelerator by the time on the device, if its events tell that."""
    if flops is None or not flops.total or timing is None or ceilings is None:
        return None
    seconds = median(timing.values(DEVICE) or model_times(timing))
    threads = setting.threads if ceilings.device is None else None
    return roofline_bound(flops.total, flops.bytes, seconds, ceilings, setting.precision, threads)

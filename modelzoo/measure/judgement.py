"""The ``validate`` job: judge one setting's predictions, with fp32 as the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from modelzoo.engines import create_engine
from modelzoo.engines.protocol import value_and_problem
from modelzoo.machine.facts import read_machine
from modelzoo.machine.linux import allowed_cpus
from modelzoo.measure.preparation import check_resolution
from modelzoo.measure.reporting import provenance
from modelzoo.records.protocol import Exhibited, Judged, Message, Progress, ValidateJob
from modelzoo.records.run import Observed, SideReport, ValidityReport
from modelzoo.validity.predictors import LoadedPredictor, validate
from modelzoo.workload import Inputs
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.discovery import load_workload


def judge(job: ValidateJob, send: Callable[[Message], None]) -> Judged:
    """Judge the setting of ``job`` in this process, and record what both models ran.

    Raises:
        ModelzooError: the setting cannot run, or its predictions cannot be judged.
    """
    # Before the engine is loaded: OpenMP libraries may bind this thread to one CPU, and libraries set variables.
    machine, cpus = read_machine(), allowed_cpus()
    own, prepared = job.assignment, job.assignment.prepared
    engine = create_engine(own.setting.engine)
    engine.load()
    work = load_workload(Path(own.directory))
    check_resolution(engine, work, own, machine.threads.count)
    send(Progress("load"))
    with engine.explained_errors():
        inputs = make_inputs(work, prepared.setting, prepared.weights)
        found = validate(
            engine,
            work,
            prepared.setting,
            prepared.weights,
            inputs,
            job.request,
            export=prepared.export,
            progress=lambda judged: send(Progress("judge", judged=judged)),
            exhibit=lambda exhibit: send(Exhibited(exhibit)),
        )
        tested, reference = side_report(found.tested, inputs), side_report(found.reference, inputs)
    return Judged(ValidityReport(found.validity, prepared, tested, reference, provenance(own, engine, machine, cpus)))


def side_report(loaded: LoadedPredictor, inputs: Inputs) -> SideReport:
    """Return what one of the two models ran, with its proof from a pass on ``inputs``."""
    try:
        evidence, problem = value_and_problem(loaded.audit(inputs))
    except Exception as error:  # the judgement is finished, and more important than its proof
        reason = (str(error).strip().splitlines() or [""])[0]
        evidence, problem = None, f"the audit failed: {type(error).__name__}: {reason}"
    canary = loaded.canary
    observed = Observed(
        canary=canary,
        canary_problem=loaded.canary_problem,
        canary_verdict=None if canary is None else canary.verdict(loaded.setting.precision),
        evidence=evidence,
        evidence_problem=problem,
    )
    return SideReport(loaded.setting, observed)

"""Judge a setting in a worker process: load the fp32 reference and the setting under test side by side.

Both models live in one process, with the same weights and inputs. Each has a session of its own, whose process-wide
switches (fast math, the backend) are in force while its model runs; a canary checks that they take effect.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from modelzoo.engines import create_engine
from modelzoo.engines.export.source import in_fp32
from modelzoo.engines.protocol import Engine, value_and_problem
from modelzoo.errors import EnvironmentProblem, UsageError, first_line
from modelzoo.evidence.kernel_names import is_narrower
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import Observed, Prepared, SideReport, ValidityReport
from modelzoo.records.validity import ValidityRequest, ValidityVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.validity.checks import SIGNIFICANT_BITS
from modelzoo.validity.judging import bind, compare, conclude
from modelzoo.validity.task import ExhibitSink, Predictor, Progress, Task, TaskContext
from modelzoo.workload.declaration import Inputs, Workload

Observe = Callable[[bool], Observed]
"""Looks at a model's canary, and at the kernels of a pass; if asked to, it calls each product of the pass again, which
shows those that are wrong."""
Reports = Callable[[bool], tuple[SideReport, SideReport]]
"""What the tested model and the reference ran; if asked to, each of their products is called again."""


def validate(
    engine: Engine,
    workload: Workload,
    prepared: Prepared,
    inputs: Inputs,
    request: ValidityRequest,
    *,
    progress: Progress = lambda judged: None,
    exhibit: ExhibitSink = lambda exhibit: None,
) -> ValidityReport:
    """Judge the predictions of a setting; the report lacks the provenance.

    Args:
        engine: loaded.
        prepared: the setting, and the weights of both models.
        inputs: a batch that determines the shapes for compiling and tracing.
        request: what the user asked for; seed, batch and everything about the weights are filled in here.

    Raises:
        UsageError: the workload does not say how its predictions are judged.
        EnvironmentProblem: this process cannot compute in fp32, so there is no reference.
    """
    task = bound_task(workload, prepared, request)
    reference, tested, reports = load_pair(engine, workload, prepared, inputs)
    found = compare(task, reference, tested, progress=progress, exhibit=exhibit)
    validity = conclude(task, found, exhibit)
    # A kernel that is wrong may be why the predictions are.
    return ValidityReport(validity, prepared, *reports(validity.verdict is not ValidityVerdict.VALID))


def bound_task(workload: Workload, prepared: Prepared, request: ValidityRequest) -> Task:
    """Return the task that judges a setting, with the items of its data set.

    Raises:
        InputError: the data is missing or malformed.
        UsageError: the workload does not say how its predictions are judged.
    """
    setting, weights = prepared.setting, prepared.weights
    complete = replace(
        request,
        seed=setting.seed,
        batch=setting.batch,
        weights_are_random=weights.kind == WeightsKind.RANDOM,
        own_weights=weights.kind == WeightsKind.PATH,
        model_path=weights.path if Path(weights.path).is_dir() else None,
    )
    task, bits = workload.judge and workload.judge(setting.options), SIGNIFICANT_BITS.get(setting.precision)
    return bind(task, TaskContext(workload.name, complete, setting.label, bits))


def load_pair(
    engine: Engine, workload: Workload, prepared: Prepared, inputs: Inputs
) -> tuple[Predictor, Predictor, Reports]:
    """Load the fp32 reference of a setting and the setting itself, with the same weights; arguments as of ``validate``.

    Raises:
        EnvironmentProblem: this process cannot compute in fp32, so there is no reference.
        UsageError: the model itself computes in less, whatever the setting says.
    """
    own, plain = prepared.setting, engine.reference(prepared.setting)
    other = engine if plain.engine == own.engine else create_engine(plain.engine)
    if other is not engine:
        other.load()
    reference, observe = load_predictor(other, workload, replace(prepared, setting=plain, export=None), inputs)
    observed = observe(False)
    canary = observed.canary
    if canary is not None and observed.canary_verdict is not CanaryVerdict.FP32:
        raise EnvironmentProblem(
            f"no fp32 reference in this process, its operators compute otherwise: {canary.summary}; "
            "unset fast-math variables, or use a torch with torch.backends.mkldnn.conv.fp32_precision (2.9 or newer)"
        )
    classes = observed.evidence.classes if observed.evidence is not None else ()
    if narrower := sorted({each for kind in classes for each in kind.precisions if is_narrower(each, "fp32")}):
        raise UsageError(
            f"no fp32 reference: {workload.name} itself multiplies in {', '.join(narrower)}; leave autocast and casts "
            "out of forward, and load weights that are not quantized"
        )
    tested, observe_tested = load_predictor(engine, workload, prepared, inputs)

    def reports(replay: bool) -> tuple[SideReport, SideReport]:
        again = observe(True) if replay else observed
        return SideReport(own, observe_tested(replay)), SideReport(plain, again)

    return reference, tested, reports


def load_predictor(engine: Engine, workload: Workload, prepared: Prepared, inputs: Inputs) -> tuple[Predictor, Observe]:
    """Load one of the two models."""
    setting, export = prepared.setting, prepared.export
    is_converted = export is not None and bool(export.converted)
    if is_converted:  # it takes fp32, and the workload makes inputs in the type that the module had
        inputs = replace(inputs, args=in_fp32(inputs.args))
    session = engine.open(setting)
    with session.active():
        model = session.load(workload, prepared.weights, inputs, export)
        canary, canary_problem = value_and_problem(session.canary())

    def observe(replay: bool) -> Observed:
        try:
            with session.active():
                args = model.prepare(deepcopy(inputs.args))
                evidence, problem = value_and_problem(model.audit(args, canary=canary, replay=replay))
        except Exception as error:  # the judgement is more important than its proof
            evidence, problem = None, f"the audit failed: {type(error).__name__}: {first_line(error)}"
        return Observed(
            canary=canary,
            canary_problem=canary_problem,
            canary_verdict=None if canary is None else canary.verdict(setting.precision),
            evidence=evidence,
            evidence_problem=problem,
            warnings=model.warnings(),
        )

    def call(*args: Any) -> Any:
        return model.predict(*(in_fp32(args) if is_converted else args))

    return Predictor(call, setting.precision, model.module, session.active, setting.recipe), observe

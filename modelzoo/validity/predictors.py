"""Judge a setting in a worker process: load the fp32 reference and the setting under test side by side.

Both models live in one process, with the same weights and inputs. Each has a session of its own, whose process-wide
switches (fast math, the backend) are in force while its model runs; a canary checks that they take effect.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, Callable, Optional

import msgspec

from modelzoo.engines import create_engine
from modelzoo.engines.export.source import in_fp32
from modelzoo.engines.protocol import Engine, Model, value_and_problem
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence.precision import is_narrower
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import Evidence
from modelzoo.records.run import Observed
from modelzoo.records.validity import Validity, ValidityRequest
from modelzoo.records.workload import Export, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.validity.checks import SIGNIFICANT_BITS
from modelzoo.validity.judging import judge
from modelzoo.validity.protocol import (
    ExhibitSink,
    Predictor,
    Progress,
    TaskContext,
    TaskDeclaration,
    no_exhibit,
    no_progress,
)
from modelzoo.workload.declaration import Inputs, Workload

REFERENCE_NAME = "fp32"
"""What tables call the reference."""


class LoadedPredictor(msgspec.Struct, frozen=True):
    """A model that is ready to predict.

    Attributes:
        predictor: the model.
        setting: what it runs under.
        observed: its canary, and the kernels of a pass.
        observe: looks again; if asked to, it calls each product of the pass again, which shows those that are wrong.
    """

    predictor: Predictor
    setting: ResolvedSetting
    observed: Observed
    observe: Callable[[bool], Observed]


class Pair(msgspec.Struct, frozen=True):
    """The two models that are compared."""

    reference: LoadedPredictor
    tested: LoadedPredictor


class Judgement(Pair, frozen=True):
    """The judgement and the two models that it compares."""

    validity: Validity


def validate(
    engine: Engine,
    workload: Workload,
    setting: ResolvedSetting,
    weights: Weights,
    inputs: Inputs,
    request: ValidityRequest,
    *,
    export: Optional[Export] = None,
    progress: Progress = no_progress,
    exhibit: ExhibitSink = no_exhibit,
) -> Judgement:
    """Judge the predictions of ``setting``.

    Args:
        engine: loaded.
        inputs: a batch that determines the shapes for compiling and tracing.
        export: the model in the format of ``engine``, if it has one of its own.
        request: what the user asked for; seed, batch and everything about the weights are filled in here.

    Raises:
        UsageError: the workload does not say how its predictions are judged.
        EnvironmentProblem: this process cannot compute in fp32, so there is no reference.
    """
    declaration = declared(workload, setting)
    pair = load_pair(engine, workload, setting, weights, inputs, export)
    validity = judge(
        workload.name,
        declaration,
        pair.reference.predictor,
        pair.tested.predictor,
        complete_request(request, setting, weights),
        progress=progress,
        exhibit=exhibit,
    )
    return Judgement(pair.reference, pair.tested, validity)


def declared(workload: Workload, setting: ResolvedSetting) -> TaskDeclaration:
    """Return how the predictions of ``workload`` are judged.

    Raises:
        UsageError: the workload does not say so.
    """
    if workload.judge is None:
        raise UsageError(
            f"workload {workload.name} does not say how its predictions are judged: set judge in workload.py"
        )
    declaration: TaskDeclaration = workload.judge(setting.options)
    return declaration


def task_context(
    workload: Workload, setting: ResolvedSetting, weights: Weights, request: ValidityRequest
) -> TaskContext:
    """Return what a task must know to judge ``setting``, as it follows from the two models once they are loaded."""
    complete = complete_request(request, setting, weights)
    bits = SIGNIFICANT_BITS.get(setting.precision)
    return TaskContext(workload.name, complete, REFERENCE_NAME, setting.label, bits)


def load_pair(
    engine: Engine,
    workload: Workload,
    setting: ResolvedSetting,
    weights: Weights,
    inputs: Inputs,
    export: Optional[Export] = None,
) -> Pair:
    """Load the setting under test and its fp32 reference, with the same weights; arguments as of ``validate``.

    Raises:
        EnvironmentProblem: this process cannot compute in fp32, so there is no reference.
        UsageError: the model itself computes in less, whatever the setting says.
    """
    plain = engine.reference(setting)
    other = engine if plain.engine == setting.engine else create_engine(plain.engine)
    if other is not engine:
        other.load()
    reference = load_predictor(other, workload, plain, weights, inputs, name=REFERENCE_NAME)
    canary = reference.observed.canary
    if canary is not None and reference.observed.canary_verdict is not CanaryVerdict.FP32:
        raise EnvironmentProblem(
            f"no fp32 reference in this process, its operators compute otherwise: {canary.summary}; "
            "unset fast-math variables, or use a torch with torch.backends.mkldnn.conv.fp32_precision (2.9 or newer)"
        )
    if narrower := _narrower_products(reference.observed.evidence):
        raise UsageError(
            f"no fp32 reference: {workload.name} itself multiplies in {', '.join(narrower)}; leave autocast and casts "
            "out of forward, and load weights that are not quantized"
        )
    return Pair(reference, load_predictor(engine, workload, setting, weights, inputs, export, name=setting.label))


def complete_request(request: ValidityRequest, setting: ResolvedSetting, weights: Weights) -> ValidityRequest:
    """Fill in what follows from the setting and the weights."""
    return replace(
        request,
        seed=setting.seed,
        batch=setting.batch,
        weights_are_random=weights.kind == WeightsKind.RANDOM,
        own_weights=weights.kind == WeightsKind.PATH,
        model_path=weights.path if Path(weights.path).is_dir() else None,
    )


def load_predictor(
    engine: Engine,
    workload: Workload,
    setting: ResolvedSetting,
    weights: Weights,
    inputs: Inputs,
    export: Optional[Export] = None,
    *,
    name: str,
) -> LoadedPredictor:
    """Load one of the two models as ``setting`` says, and look at its canary and at the kernels of a pass."""
    is_converted = export is not None and bool(export.converted)
    if is_converted:  # it takes fp32, and the workload makes inputs in the type that the module had
        inputs = replace(inputs, args=in_fp32(inputs.args))
    session = engine.open(setting)
    with session.active():
        model = session.load(workload, weights, inputs, export)
        canary, canary_problem = value_and_problem(session.canary())

    def observe(replay: bool) -> Observed:
        with session.active():
            evidence, problem = _audited(model, inputs, canary, replay)
        return Observed(
            canary=canary,
            canary_problem=canary_problem,
            canary_verdict=None if canary is None else canary.verdict(setting.precision),
            evidence=evidence,
            evidence_problem=problem,
            warnings=model.warnings(),
        )

    call = _in_fp32(model.predict) if is_converted else model.predict
    predictor = Predictor(name, call, setting.precision, model.module, session.active, setting.recipe)
    return LoadedPredictor(predictor, setting, observe(False), observe)


def _audited(
    model: Model, inputs: Inputs, canary: Optional[Canary], replay: bool
) -> tuple[Optional[Evidence], Optional[str]]:
    """Prove which kernels the model runs, in which precision, by observing one pass on ``inputs``; or why not."""
    try:
        args = model.prepare(deepcopy(inputs.args))
        return value_and_problem(model.audit(args, passes=1, canary=canary, replay=replay))
    except Exception as error:  # the judgement is more important than its proof
        reason = (str(error).strip().splitlines() or [""])[0]
        return None, f"the audit failed: {type(error).__name__}: {reason}"


def _narrower_products(evidence: Optional[Evidence]) -> list[str]:
    """The precisions below fp32 in which products ran, as far as it is known."""
    classes = evidence.classes if evidence is not None else ()
    return sorted({each for kind in classes for each in kind.precisions if is_narrower(each, "fp32")})


def _in_fp32(predict: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: predict(*in_fp32(args))

"""Judge a setting's predictions in a fresh worker process: fp32 and the setting, side by side.

Both models live in one process with the same weights and inputs; what is process-wide (fast math, the
backend) is switched for each side. That the switch works is checked by the canary on either side.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable

from modelzoo.engines.torch import execution, precision, switches
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence import canary
from modelzoo.machine.worker_environment import MATH_MODE_VARIABLE
from modelzoo.records.canary import Canary
from modelzoo.records.workload import Weights
from modelzoo.setting import Setting
from modelzoo.validity import Side, ValidityRequest, judge
from modelzoo.workload.declaration import Inputs, Workload
from modelzoo.workload.weights import load_model


def validate(
    work: Workload,
    setting: Setting,
    weights: Weights,
    inputs: Inputs,
    request: Mapping[str, Any],
    send: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Return the ``Validity`` of ``setting`` as plain data, with what the canaries said.

    ``setting`` is complete (threads and way filled in); ``request`` holds the fields of
    ``ValidityRequest`` as plain data; ``inputs`` serve compiling and tracing.

    Raises:
        UsageError: the workload does not say how its predictions are judged.
        EnvironmentProblem: fp32 cannot be had in this process, so there is no reference.
    """
    if work.judge is None:
        raise UsageError(f"workload {work.name} does not say how its predictions are judged: set judge in workload.py")
    plain = setting.reference()
    if MATH_MODE_VARIABLE in os.environ:  # this torch has no switch to overrule it: fp32 is had without oneDNN
        plain = plain.replace(backend="blas")
    reference, reference_canary = make_side(work, plain, weights, inputs, "fp32")
    if reference_canary.verdict("fp32") != "fp32":
        raise EnvironmentProblem(
            f"there is no fp32 reference in this process, its operators compute otherwise: {reference_canary.summary}; "
            "unset fast-math variables, or use a torch with torch.backends.mkldnn.conv.fp32_precision (2.9 or newer)"
        )
    tested, tested_canary = make_side(work, setting, weights, inputs, setting.label)
    place = Path(weights.path)
    found = judge(
        work.name,
        work.judge,
        reference,
        tested,
        ValidityRequest(
            output=Path(request["output"]),
            data=Path(request["data"]) if request["data"] else None,
            limit=request["limit"],
            seed=setting.seed,
            tolerance=request["tolerance"],
            batch=setting.batch or 1,
            explain=request["explain"],
            weights_are_random=weights.kind == "random",
            own_weights=weights.kind == "path",
            model_path=place if place.is_dir() else None,
        ),
        lambda done, total, running: send({"phase": f"{done} of {total}: {running}"}),
    )
    return {
        "validity": asdict(found),
        "setting": setting.to_json(),
        "weights": asdict(weights),
        "canary_word": tested_canary.verdict(setting.precision),
        "canary_summary": tested_canary.summary,
    }


def make_side(
    work: Workload, setting: Setting, weights: Weights, inputs: Inputs, name: str
) -> tuple[Side, Canary]:
    """One side of a judgement, its model loaded and built as ``setting`` says, and what its canary saw."""

    def active() -> AbstractContextManager[Any]:
        return switches.applied(setting)

    with active():
        model = load_model(work, setting.options, weights)
        executable = execution.build(work, model, inputs, setting)
        with precision.autocast(setting):
            seen = canary.run_canary(setting.device, setting.bf16_method == "cast")

    def call(*args: Any) -> Any:
        try:
            return executable.call(*executable.prepare(args))
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise execution.refusal(work, setting, error) from error

    hooked = executable.model if setting.mode == "eager" else None
    return Side(name, call, setting.precision, hooked, active), seen

"""Quantize exported models by ONNX Runtime's own tools; imports onnx and onnxruntime when used.

``dynamic`` quantizes every ``MatMul`` and ``Gemm`` with constant weights: these are int8, symmetric, with one scale per
layer or per output channel, and the other operand is quantized in each call, to 8 bits with one scale per tensor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelzoo.engines.export.onnx import MODEL, WEIGHTS, WITH_HEADS
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.installation import installed_version
from modelzoo.records.workload import Conversion
from modelzoo.setting import Setting

PER_TENSOR, PER_CHANNEL = "dynamic-per-tensor", "dynamic-per-channel"
RECIPES = {None: PER_CHANNEL, "dynamic": PER_TENSOR, PER_TENSOR: PER_TENSOR, PER_CHANNEL: PER_CHANNEL}
"""What runs, by what was asked for: ``dynamic`` is what ``quantize_dynamic`` does by default. Without a recipe, it is
the one whose predictions are nearer to those of fp32."""


def resolve_recipe(setting: Setting) -> str | None:
    """The recipe that ``setting`` runs with; ``None`` if it is not quantized.

    Raises:
        UsageError: ONNX Runtime does not have it.
    """
    if setting.precision != "int8":
        return None
    if setting.recipe not in RECIPES:
        known = ", ".join(name for name in RECIPES if name is not None)
        raise UsageError(
            f"recipe={setting.recipe} is one of torch's, and ONNX Runtime has {known}; or use --engine torch"
        )
    return RECIPES[setting.recipe]


def quantized_conversion(conversion: Conversion, recipe: str) -> Conversion:
    """``conversion``, followed by ``recipe``."""
    version = f"{conversion.version}, onnxruntime {installed_version('onnxruntime')}"
    return replace(conversion, version=version, options={**conversion.options, "recipe": recipe})


def quantize_files(directory: Path, recipe: str) -> None:
    """Replace the exported models in ``directory`` by quantized ones.

    Raises:
        UsageError: they have nothing that the recipe quantizes.
    """
    for name in (MODEL, WITH_HEADS):
        if (directory / name).exists():
            made = directory / f"quantized-{name}"
            quantize(directory / name, made, recipe)
            made.replace(directory / name)
    (directory / WEIGHTS).unlink(missing_ok=True)  # the quantized models hold their own


def quantize(model: object, place: Path, recipe: str) -> None:
    """Write a quantized model.

    Args:
        model: a path or an ``onnx.ModelProto``.
        place: of the file to write.
        recipe: a resolved one.

    Raises:
        UsageError: the model has nothing that the recipe quantizes.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(
            model,
            str(place),
            op_types_to_quantize=["MatMul"],  # it makes one of every Gemm
            per_channel=recipe == PER_CHANNEL,
            weight_type=QuantType.QInt8,
        )
    nodes = onnx.load_model(str(place), load_external_data=False).graph.node
    if not any(node.op_type == "MatMulInteger" for node in nodes):
        raise UsageError(f"recipe={recipe}: the model has no Linear layer; use another precision")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the advice to optimize the model first, which would also fuse what the timed fp32 model has not."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(previous)

"""Run the canary's operators in OpenVINO under the options of a setting, and compare them with fp64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from modelzoo.engines.openvino.options import DEVICE
from modelzoo.evidence.canary import CanaryCase, canary_cases, check_output
from modelzoo.records.canary import Canary

if TYPE_CHECKING:
    import openvino


def run_canary(core: openvino.Core, options: Mapping[str, str]) -> Canary:
    """Run the operators of ``modelzoo.evidence.canary`` in one model that is compiled with ``options``."""
    cases = canary_cases()
    request = core.compile_model(canary_model(cases), DEVICE, dict(options)).create_infer_request()
    request.infer([each for case in cases for each in case.inputs])
    return Canary(
        tuple(
            check_output(case.operator, case.exact, request.get_output_tensor(number).data)
            for number, case in enumerate(cases)
        )
    )


def canary_model(cases: tuple[CanaryCase, ...]) -> openvino.Model:
    """Return ``cases`` as a model with one output each, in order."""
    import openvino
    from openvino import opset8

    inputs, outputs = [], []
    for case in cases:
        parameters = [opset8.parameter(list(each.shape), openvino.Type.f32) for each in case.inputs]
        operands = [*parameters, *(opset8.constant(each) for each in case.constants)]
        inputs += parameters
        outputs.append(_operator(case, operands))
    return openvino.Model(outputs, inputs, "canary")


def _operator(case: CanaryCase, operands: list[openvino.Node]) -> openvino.Node:
    from openvino import opset8

    if case.operator == "matmul":
        return opset8.matmul(*operands, transpose_a=False, transpose_b=False)
    left, weight, bias = operands
    if case.operator == "linear":
        return opset8.add(opset8.matmul(left, weight, transpose_a=False, transpose_b=True), bias)
    padding = [size // 2 for size in case.constants[0].shape[2:]]
    product = opset8.convolution(left, weight, strides=[1, 1], pads_begin=padding, pads_end=padding, dilations=[1, 1])
    return opset8.add(product, opset8.constant(case.constants[1][None, :, None, None]))

"""Run the canary's operators under the session options of a setting, and compare them with fp64.

There is an operator for each entry point of MLAS, ONNX Runtime's library of kernels, that may have a bf16 kernel of its
own: those of ``modelzoo.evidence.canary``, and ``projection``, a product with constant weights and no bias. A
``linear`` becomes the operator ``Gemm``, a ``projection`` stays a ``MatMul`` and its weights are packed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modelzoo.evidence.canary import CanaryCase, canary_cases, check_output
from modelzoo.records.canary import Canary

if TYPE_CHECKING:
    import onnxruntime
    from numpy.typing import NDArray

OPSET = 17
IR_VERSION = 8
"""That of ONNX 1.12, the release of ``OPSET``: older versions of ONNX Runtime reject models with a newer one."""


def run_canary(options: onnxruntime.SessionOptions, providers: tuple[str, ...]) -> Canary:
    """Run the operators in one session with ``options``."""
    import onnxruntime

    cases = (*canary_cases(), _projection())
    session = onnxruntime.InferenceSession(canary_model(cases), options, providers=list(providers))
    outputs = session.run([case.operator for case in cases], dict(_inputs(cases)))
    return Canary(tuple(check_output(case.operator, case.exact, output) for case, output in zip(cases, outputs)))


def _projection() -> CanaryCase:
    linear = next(case for case in canary_cases() if case.operator == "linear")
    weight, bias = linear.constants
    return CanaryCase("projection", linear.inputs, (weight.T.copy(),), linear.exact - bias)


def _inputs(cases: tuple[CanaryCase, ...]) -> list[tuple[str, NDArray[Any]]]:
    return [(f"{case.operator}.{number}", each) for case in cases for number, each in enumerate(case.inputs)]


def canary_model(cases: tuple[CanaryCase, ...]) -> bytes:
    """Return ``cases`` as a serialized ONNX model, whose outputs are named like the operators."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], []
    for case in cases:
        weights = [
            numpy_helper.from_array(each, f"{case.operator}.c{number}") for number, each in enumerate(case.constants)
        ]
        operands = [f"{case.operator}.{number}" for number in range(len(case.inputs))] + [each.name for each in weights]
        kind, attributes = _node_of(case)
        nodes.append(helper.make_node(kind, operands, [case.operator], **attributes))
        constants += weights
    graph = helper.make_graph(
        nodes,
        "canary",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in _inputs(cases)],
        [helper.make_tensor_value_info(case.operator, TensorProto.FLOAT, case.exact.shape) for case in cases],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized


def _node_of(case: CanaryCase) -> tuple[str, dict[str, Any]]:
    """The ONNX operator of a case, and its attributes."""
    if case.operator == "linear":
        return "Gemm", {"transB": 1}
    if case.operator in ("matmul", "projection"):
        return "MatMul", {}
    height, width = case.constants[0].shape[2:]
    return "Conv", {"pads": [height // 2, width // 2, height // 2, width // 2]}

"""Read what ONNX Runtime's profiler writes, a JSON array of events. Pure.

The profiler records one event per node of the optimized graph, which need not be a node of the model: convolutions may
have been fused with what follows and converted to the NCHWc layout, with nodes that reorder. The event of a node that
runs a subgraph (``If``, ``Loop``) includes those of the subgraph's nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from modelzoo.engines.onnxruntime.operators import CONSTANT, operations, operator_class
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import Span
from modelzoo.records.profile import Shape

NCHWC = "NCHWc"
CPU_PROVIDER = "CPUExecutionProvider"
_RUN_EVENT = "model_run"
_KERNEL_EVENT = "_kernel_time"
_NCHWC_NODE = re.compile(r"_nchwc(_token_\d+)?$")
"""How ONNX Runtime names the nodes that it converts to the NCHWc layout; their operators keep their names."""


class ProfileLogError(ValueError):
    """The log cannot be read; the message says why, in one line."""


@dataclass(frozen=True)
class Tensor:
    """The type, as the profiler names it, and the shape of an input or output."""

    dtype: str
    shape: Shape


@dataclass(frozen=True)
class NodeCall:
    """One call of one node; constant inputs that have been packed are missing."""

    operator: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class _Arguments(msgspec.Struct):
    op_name: str = ""
    provider: str = ""
    parameter_size: str = "0"
    input_type_shape: list[dict[str, list[int]]] = []
    output_type_shape: list[dict[str, list[int]]] = []


class _Entry(msgspec.Struct):
    name: str
    ts: int
    dur: int
    cat: str = ""
    tid: int = 0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


def parse_profile(text: bytes, passes: int) -> tuple[Span, ...]:
    """Return the last ``passes`` runs of the session, each as a ``PASS_EVENT``, and the nodes that ran in them.

    The name of a node is its operator's, followed by what tells its kernel from others of the same operator, in
    brackets: ``Conv [NCHWc]``, or ``MatMul [constant]`` if the second operand is a constant, whose shape is missing if
    it has been packed. Another provider than the CPU's is named too.

    Args:
        text: the contents of the profiler's file.
        passes: number of runs to return.

    Raises:
        ProfileLogError: the file is not complete, or it has fewer runs.
    """
    entries = _read(text)
    runs = _last_runs(entries, passes)
    nodes = [each for each in entries if _is_node(each)]
    return (*(_span(each, PASS_EVENT) for each in runs), *(_span(each, _node_name(each)) for each in nodes))


def parse_calls(text: bytes) -> tuple[NodeCall, ...]:
    """Return the calls of nodes in the last run of the session, in the order in which they ended.

    Args:
        text: the contents of the profiler's file.

    Raises:
        ProfileLogError: the file is not complete, or it has no run.
    """
    entries = _read(text)
    (run,) = _last_runs(entries, 1)
    return tuple(
        NodeCall(each.args.op_name, _tensors(each.args.input_type_shape), _tensors(each.args.output_type_shape))
        for each in entries
        if _is_node(each) and run.ts <= each.ts <= run.ts + run.dur
    )


def _read(text: bytes) -> list[_Entry]:
    try:
        return msgspec.json.decode(text, type=list[_Entry])
    except msgspec.DecodeError as error:
        raise ProfileLogError(f"ONNX Runtime's profile cannot be read: {error}") from error


def _last_runs(entries: Sequence[_Entry], count: int) -> list[_Entry]:
    runs = sorted((each for each in entries if each.name == _RUN_EVENT), key=lambda each: each.ts)
    if len(runs) < count:
        raise ProfileLogError(f"ONNX Runtime's profile has {len(runs)} runs instead of {count}")
    return runs[-count:]


def _is_node(entry: _Entry) -> bool:
    return entry.cat == "Node" and entry.name.endswith(_KERNEL_EVENT)


def _tensors(listed: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(Tensor(dtype, tuple(shape)) for each in listed for dtype, shape in each.items())


def _span(entry: _Entry, name: str) -> Span:
    """The event in nanoseconds; the profiler counts in microseconds."""
    inputs = _tensors(entry.args.input_type_shape)
    return Span(
        name=name,
        start=1000 * entry.ts,
        stop=1000 * (entry.ts + entry.dur),
        thread=entry.tid,
        shapes=tuple(each.shape for each in inputs),
        dtypes=tuple(each.dtype for each in inputs),
        flop=_flop(entry, inputs),
    )


def _flop(entry: _Entry, inputs: Sequence[Tensor]) -> int | None:
    operator, outputs = entry.args.op_name, _tensors(entry.args.output_type_shape)
    if operator_class(operator) is None:
        return None
    return operations(operator, [each.shape for each in inputs], [each.shape for each in outputs])


def _node_name(entry: _Entry) -> str:
    operator, inputs = entry.args.op_name, entry.args.input_type_shape
    marks = []
    if _NCHWC_NODE.search(entry.name.removesuffix(_KERNEL_EVENT)):
        marks.append(NCHWC)
    if "MatMul" in operator and (len(inputs) == 1 or entry.args.parameter_size not in ("", "0")):
        marks.append(CONSTANT)
    if entry.args.provider != CPU_PROVIDER:
        marks.append(entry.args.provider or "unknown provider")
    return f"{operator} [{', '.join(marks)}]" if marks else operator


def fixed_sizes(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """``shapes`` without the first size of each, which is the number of items: in detectors it depends on the data."""
    return tuple(shape[1:] for shape in shapes)

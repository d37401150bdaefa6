"""Python that runs an exported model like a process that was measured. Pure.

The options are those that the process recorded, so they are the same whatever an engine's defaults are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional

from modelzoo.records.export import Export
from modelzoo.records.run import RunReport

_ENUMERATIONS = {"execution_mode": "ExecutionMode", "graph_optimization_level": "GraphOptimizationLevel"}
"""Attributes of ONNX Runtime's session options whose values are enumerators, with their types."""


def lines(report: RunReport) -> Optional[list[str]]:
    """Return the lines, which need nothing of this suite; ``None`` if there are none for the engine."""
    write = _ENGINES.get(report.setting.engine)
    return write(report, report.prepared.export) if write is not None and report.prepared.export is not None else None


def _onnxruntime(report: RunReport, export: Export) -> list[str]:
    pairs = _pairs(report.switches)
    providers = pairs.pop("providers", "CPUExecutionProvider").split(",")
    options = []
    for name, value in pairs.items():
        if "." in name:
            options.append(f'options.add_session_config_entry("{name}", "{value}")')
        else:
            kind = _ENUMERATIONS.get(name)
            options.append(f"options.{name} = {f'onnxruntime.{kind}.{value}' if kind else value}")
    return [
        "import onnxruntime",
        "",
        "options = onnxruntime.SessionOptions()",
        *options,
        "",
        "",
        f"def optimized(path={f'{export.path}/model.onnx'!r}):",
        *_docstring(report, export, "model.onnx and weights.bin"),
        f"    session = onnxruntime.InferenceSession(path, options, providers={providers!r})",
        "    names = [each.name for each in session.get_inputs()]",
        "",
        "    def call(*arrays):",
        "        return session.run(None, dict(zip(names, arrays)))",
        "",
        "    return call",
    ]


def _openvino(report: RunReport, export: Export) -> list[str]:
    return [
        "import openvino",
        "",
        "OPTIONS = {",
        *(f'    "{name}": "{value}",' for name, value in _pairs(report.switches).items()),
        "}",
        "",
        "",
        f"def optimized(*example, path={f'{export.path}/model.xml'!r}):",
        *_docstring(
            report, export, "model.xml and model.bin", "    ``example``: arrays of the shapes that are to come."
        ),
        "    core = openvino.Core()",
        "    model = core.read_model(path)",
        "    model.reshape({i: openvino.PartialShape(list(each.shape)) for i, each in enumerate(example)})",
        '    request = core.compile_model(model, "CPU", OPTIONS).create_infer_request()',
        "",
        "    def call(*arrays):",
        "        request.infer(list(arrays), share_inputs=True, share_outputs=True)",
        "        # The next call overwrites them: copy what is kept.",
        "        return [each.data for each in request.output_tensors]",
        "",
        "    return call",
    ]


def _docstring(report: RunReport, export: Export, files: str, more: str = "") -> list[str]:
    conversion = export.conversion
    opset = f", opset {conversion.opset}" if conversion.opset is not None else ""
    return [
        '    """Return what runs the exported model on numpy arrays in the order of its inputs, in batches of '
        f"{report.setting.batch}.",
        "",
        *([f"    {more}", ""] if more else []),
        f"    {conversion.exporter} ({conversion.version}{opset}) made {files} with {conversion.options}.",
        f"    SHA-256 of the state of the torch module: {export.state_sha256}",
        '    """',
    ]


def _pairs(switches: Sequence[str]) -> dict[str, str]:
    """The options as recorded: ``NAME=VALUE``."""
    return dict(each.split("=", 1) for each in switches if "=" in each)


_ENGINES: dict[str, Callable[[RunReport, Export], list[str]]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}

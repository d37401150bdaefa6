"""Write a torch module in OpenVINO's format (IR); this module imports torch and openvino when used.

model.xml, model.bin     the graph and its constants, with the outputs of the torch module and, of detectors, those
                         of the raw heads
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.errors import UsageError
from modelzoo.machine.installation import installed_version
from modelzoo.records.export import Conversion

if TYPE_CHECKING:
    import openvino

    from modelzoo.engines.export.source import TorchSource

MODEL = "model.xml"


def openvino_conversion() -> Conversion:
    """How ``write_openvino`` converts a module."""
    version = f"openvino {installed_version('openvino')}, torch {installed_version('torch')}"
    return Conversion("openvino.frontend.pytorch", version, None, {"trace": True, "compress_to_fp16": False})


def write_openvino(source: TorchSource, conversion: Conversion, directory: Path) -> tuple[str, ...]:
    """Write the files of ``source`` into ``directory``; return its parts: none, because it is converted whole.

    ``openvino.convert_model`` does the same, and also reports its use to Intel unless the user has opted out.

    Raises:
        UsageError: an operator has no counterpart in OpenVINO, or the outputs do not depend on an input.
    """
    import openvino
    import torch
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    flat = source.flat_module(heads=source.workload.heads is not None)
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing warns of every Python value that becomes a constant. Whether the converted model is right is found out
        # by comparing its outputs with torch's.
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(flat, example_input=source.flat_inputs, trace_kwargs={"check_trace": False})
        model = _converted(source, decoder)
    expected = len(source.flat_inputs)
    if len(model.inputs) != expected:
        raise UsageError(
            f"{source.workload.name} cannot be exported for openvino: {len(model.inputs)} of its {expected} inputs are "
            "left; run it with --engine torch"
        )
    openvino.save_model(model, directory / MODEL, compress_to_fp16=bool(conversion.options["compress_to_fp16"]))
    return ()


def _converted(source: TorchSource, decoder: Any) -> openvino.Model:
    import openvino
    from openvino.frontend import FrontEndManager, OpConversionFailure

    frontend = FrontEndManager().load_by_framework("pytorch")
    loaded = frontend.load(decoder)
    for place, tensor in zip(loaded.get_inputs(), source.flat_inputs):
        # A scripted function in the graph leaves the types of the inputs unknown.
        loaded.set_element_type(place, openvino.Type(tensor.numpy().dtype))
        loaded.set_partial_shape(place, openvino.PartialShape([-1] * tensor.dim()))
    try:
        return frontend.convert(loaded)
    except OpConversionFailure as error:
        # The last lines sum up which operators failed; those before tell where in OpenVINO's sources.
        summary = str(error).rpartition("Summary:")[2]
        lines = [line.strip(" -") for line in summary.splitlines() if line.startswith("-- ")]
        reason = "; ".join(lines) or "an operator has no counterpart"
        raise UsageError(
            f"{source.workload.name} cannot be exported for openvino: {reason}; run it with --engine torch"
        ) from error

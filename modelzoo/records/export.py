"""A workload's model in the format of an engine, and the batch that it is measured with."""

from __future__ import annotations

from typing import Optional, Union

import msgspec

ExportOption = Union[bool, int, float, str]


class Conversion(msgspec.Struct, frozen=True):
    """How a torch module is converted. Equal conversions of equal weights give equal exports.

    Attributes:
        exporter: what converts it, for example ``torch.onnx.export``.
        version: the exporter's version, and those of other packages that it depends on.
        opset: version of the ONNX operators; ``None`` if the format has none.
        options: every option that changes what is exported.
    """

    exporter: str
    version: str
    opset: Optional[int] = None
    options: dict[str, ExportOption] = msgspec.field(default_factory=dict)


class Export(msgspec.Struct, frozen=True):
    """A workload's model with its weights, converted once for all processes of a call.

    Attributes:
        path: the directory that holds it; ``modelzoo.engines.export.store`` reads it.
        batch: name of the measured batch in that directory: its inputs, and torch's outputs for them.
        conversion: how it was made.
        state_sha256: SHA-256 of the torch module's state: names, shapes, types and values of all tensors.
        sha256: SHA-256 of the converted files.
        parts: if the model could not be converted whole, the parts that it was split into, and what runs each; empty
            if it is whole.
    """

    path: str
    batch: str
    conversion: Conversion
    state_sha256: str
    sha256: str
    parts: tuple[str, ...] = ()

"""Inference frameworks behind one protocol, ``modelzoo.engines.protocol``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from modelzoo.errors import UsageError

if TYPE_CHECKING:
    from modelzoo.engines.protocol import Engine

ENGINES = {
    "torch": "modelzoo.engines.torch.engine:TorchEngine",
    "onnxruntime": "modelzoo.engines.onnxruntime:OnnxRuntimeEngine",
    "openvino": "modelzoo.engines.openvino:OpenVinoEngine",
    "jittor": "modelzoo.engines.jittor.engine:JittorEngine",
}
"""The engines that the suite contains: name, and where the class is defined."""
INSTALL = {
    "torch": "scripts/setup lock.txt",
    "onnxruntime": "pip install onnxruntime onnx onnxscript",
    "openvino": "pip install openvino",
    "jittor": "scripts/setup-jittor",
}
"""How to install each. Not by the extras in pyproject.toml: what PyPI has under the suite's name is another project."""


def torchao_installation(torch: str | None) -> str:
    """How to install torchao beside this release of torch: each release of torchao is built for one of torch."""
    if torch is not None and torch.startswith("2.10."):
        return "pip install torchao==0.16.0"
    return f"pip install the release of torchao that is built for torch {torch or 'here'} (0.16.0: for 2.10)"


def create_engine(name: str = "torch") -> Engine:
    """Create an engine; its framework is not imported.

    Args:
        name: one of ``ENGINES``, or ``module:class`` of an engine from elsewhere.

    Raises:
        UsageError: there is no such engine.
    """
    place = ENGINES.get(name, name)
    module, separator, attribute = place.partition(":")
    if not separator:
        raise UsageError(f"no engine {name!r}: use one of {', '.join(ENGINES)}, or module:class")
    try:
        engine: Engine = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"engine {name!r} cannot be loaded: {error}") from error
    return engine

"""NMS and RoI align under CPU autocast in torchvision 0.14, which has bf16 kernels for neither."""

from __future__ import annotations

import sys
from typing import Any

_libraries: list[Any] = []
"""Kept for the life of the process: an operator's registration ends with its library object."""


def cover() -> None:
    """Register what newer torchvision does under CPU autocast: both operators compute in fp32.

    Nothing is done where torchvision is not in use or has the rule itself. It is without effect outside of
    autocast, so it is not undone.
    """
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if "torchvision" not in sys.modules or not hasattr(torch.ops.torchvision, "nms"):
        return
    if not has("torchvision::nms", "AutocastCPU"):
        register("torchvision")


def register(namespace: str) -> None:
    """Give ``nms`` and ``roi_align`` of ``namespace`` a rule for CPU autocast."""
    import torch
    from torch.library import Library

    operators = getattr(torch.ops, namespace)

    def nms(boxes: Any, scores: Any, threshold: float) -> Any:
        return _without_autocast(operators.nms, boxes.float(), scores.float(), threshold)

    def roi_align(features: Any, boxes: Any, *rest: Any) -> Any:
        return _without_autocast(operators.roi_align, features.float(), boxes.float(), *rest).to(features.dtype)

    library = Library(namespace, "IMPL", "AutocastCPU")
    library.impl("nms", nms)
    library.impl("roi_align", roi_align)
    _libraries.append(library)


def _without_autocast(operator: Any, *args: Any) -> Any:
    import torch

    with torch.autocast("cpu", enabled=False):
        return operator(*args)

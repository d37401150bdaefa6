"""NMS and RoI align under CPU autocast in torchvision 0.14, which has bf16 kernels for neither of them."""

from __future__ import annotations

import sys
from typing import Any

_libraries: list[Any] = []
"""Kept alive for the whole process: a registration ends when its library object is deleted."""


def register_missing() -> None:
    """Make both operators compute in fp32 under CPU autocast, as newer versions of torchvision do.

    Does nothing if torchvision has not been imported or has such a rule itself. The rule has no effect outside
    autocast, so it is never removed.
    """
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if "torchvision" not in sys.modules or not hasattr(torch.ops.torchvision, "nms"):
        return
    if not has("torchvision::nms", "AutocastCPU"):
        register("torchvision")


def register(namespace: str) -> None:
    """Register ``nms`` and ``roi_align`` of ``namespace`` for CPU autocast."""
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

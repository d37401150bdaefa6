"""Record a call, and call its products again, without the call that nobody observes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from modelzoo.evidence.recording import Plan, Recording, record_once
from modelzoo.records.evidence import Product


def replayed(call: Callable[[], object], module: Any = None, *, replays: bool = True) -> Recording:
    """What the operators of ``call`` did, in inference mode."""
    with torch.inference_mode():
        return record_once(call, Plan(model=module, budget=(lambda seconds: 6.0) if replays else None))


def only(call: Callable[[], object]) -> Product:
    """What the only product of ``call`` showed."""
    (found,) = replayed(call).products
    return found

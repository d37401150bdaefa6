"""How close a run came to the measured limits of its machine."""

from __future__ import annotations

from enum import Enum
from typing import Optional

import msgspec


class BoundBy(str, Enum):
    """The limit that applies at an arithmetic intensity."""

    COMPUTE = "compute"
    MEMORY = "memory"


class Bound(msgspec.Struct, frozen=True):
    """A run's position under the roofline; ``None`` if the ceilings or the bytes are unknown.

    Attributes:
        precision: of the kernels that ran.
        gflops: achieved speed in GFLOP/s.
        ceiling: the best matrix product measured in that precision with that many threads, in GFLOP/s.
        share_of_ceiling: ``gflops`` ÷ ``ceiling``.
        intensity: arithmetic intensity, operations per byte moved.
        ridge: the intensity at which the compute and memory limits meet.
        share_of_roof: ``gflops`` ÷ min(``ceiling``, ``intensity`` × bandwidth).
        bound_by: the lower of the two limits.
    """

    precision: str
    gflops: float
    ceiling: Optional[float]
    share_of_ceiling: Optional[float]
    intensity: Optional[float]
    ridge: Optional[float]
    share_of_roof: Optional[float]
    bound_by: Optional[BoundBy]

"""Where a search begins: the highest rate that meets the bound in virtual time, with the service times measured."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import fmean, median
from typing import Optional

from modelzoo.frozen import replace
from modelzoo.load.bracket import highest
from modelzoo.load.measuring import measure
from modelzoo.load.virtual import VirtualServer
from modelzoo.records.load import Calibration, LoadPlan

START = 0.7
"""The share of the capacity with which the search in virtual time begins."""


def predicted(plan: LoadPlan, calibration: Calibration, alone: Mapping[int, float], fixed_size: Optional[int]) -> float:
    """Return the rate to try first, in requests per second.

    A batch takes what one of the calibration's did, drawn at random; a smaller batch takes the share of it that it took
    in an instance's warm-up. If no rate meets the bound in virtual time, it is a low one.

    Args:
        plan: of a search.
        calibration: what full batches took while all instances were busy.
        alone: seconds of a batch by its size, as the instances measured them before.
        fixed_size: as in ``Server``.
    """
    draw, whole = random.Random(plan.seed), alone.get(calibration.size, median(calibration.seconds))
    # Between two batches an instance waits for the generator.
    cycle = plan.instances * calibration.size / calibration.rate
    between = max(0.0, cycle - fmean(calibration.seconds))

    def service(size: int) -> float:
        return draw.choice(calibration.seconds) * alone.get(size, whole) / whole + between

    def passes(rate: float) -> bool:
        server = VirtualServer(plan.instances, service, fixed_size)
        return measure(server, replace(plan, duration=None), rate, 0, 0, calibration).is_valid

    first = START * calibration.rate
    found = highest(first, passes)
    return first / 2 if found is None else found

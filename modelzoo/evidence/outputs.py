"""Compare the outputs of passes that are observed with those of passes that are not.

A model can tell that it is observed, and compute in another precision meanwhile; its outputs then differ.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from modelzoo.evidence.audit import log_operations, run_audit
from modelzoo.evidence.canary import FP32_BELOW
from modelzoo.evidence.flops import Call, FlopCountError, tensors_in
from modelzoo.evidence.observation import RANDOM_OUTPUTS, Audit, Replays
from modelzoo.evidence.probes import relative_error
from modelzoo.frozen import replace

Follow = Callable[[Callable[[], None], float], tuple[list[Call], Replays]]
"""Intercepts the operators of a pass, given the pass and the seconds that one takes; ``ask_products``, say."""


def watched_audit(
    call: Callable[[], object], passes: int, follow: Follow, ready: Callable[[], None] = lambda: None
) -> tuple[Audit, Replays | None, tuple[Call, ...] | str]:
    """Audit passes and follow one more, and compare their outputs with those of a pass that nobody observes.

    Args:
        call: one pass.
        passes: number of passes that are audited.
        follow: intercepts one more.
        ready: called before each pass.

    Returns:
        The audit; what the pass that was followed shows, ``None`` if none could be; its operators, or why they are not
        known.
    """
    ready()
    watch = OutputWatch(call)
    ready()
    audit = run_audit(watch.observed, passes)
    ready()
    try:
        calls, replays = follow(watch.observed, watch.seconds)
    except FlopCountError as error:
        return audit, None, str(error)
    ready()
    if watch.is_random():
        return replace(audit, problems=(*audit.problems, RANDOM_OUTPUTS)), replays, tuple(calls)
    return audit, replace(replays, outputs_differ=watch.differ), tuple(calls)


def watched_operations(call: Callable[[], object]) -> tuple[Mapping[str, int] | None, OutputWatch]:
    """Call once; return the logged operations by precision, and what compares the outputs of other calls with these."""
    watches: list[OutputWatch] = []
    return log_operations(lambda: watches.append(OutputWatch(call))), watches[0]


class OutputWatch:
    """The outputs of one call, at first and while it is observed.

    Args:
        call: one pass; it is called once now, unobserved.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        began = time.perf_counter()
        output = call()
        self.seconds = time.perf_counter() - began
        """What this call took."""
        self._first = _kept(output)
        self.differ = False
        """Whether an observed pass had other outputs."""

    def observed(self) -> None:
        """Call it while it is observed."""
        output = self._call()
        self.differ = self.differ or _differ(self._first, tensors_in(output))

    def is_random(self) -> bool:
        """Whether even the outputs of two passes that nobody observes differ; not asked unless others did."""
        return self.differ and _differ(self._first, tensors_in(self._call()))


def _kept(output: object) -> list[Any]:
    """The tensors of an output, which the next call may overwrite."""
    return [each.clone() for each in tensors_in(output)]


def _differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two outputs differ by more than the rounding of fp32, or in their shapes."""
    return len(first) != len(second) or any(map(_differs, first, second))


def _differs(first: Any, second: Any) -> bool:
    import torch

    if first.shape != second.shape or first.dtype != second.dtype:
        return True
    if torch.equal(first, second):
        return False
    if not first.is_floating_point():
        return True
    different = ~((first == second) | (first.isnan() & second.isnan()))
    return bool(different.any()) and not relative_error([(second, first.double())]) < FP32_BELOW

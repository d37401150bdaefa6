"""Keep the inputs of a model as they are: some models change them in place.

The first call shows whether a model does. If so, they are restored before every later one, outside of the timing, and
whatever looks at the model afterwards gives copies to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelzoo.engines.protocol import ComposableModel
from modelzoo.frozen import replace
from modelzoo.measure.clock import Clock, Times
from modelzoo.measure.loading import Built
from modelzoo.measure.pipeline import moved
from modelzoo.workload.nested import leaves


class KeptInputs:
    """The arrays in prepared arguments, as they were before the first call.

    Args:
        args: nested lists, tuples and dicts; what is neither a numpy array nor a dense tensor of torch is left alone.
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self._arrays = [each for each in leaves(args) if _is_dense(each)]
        self._copies = [each.clone() if hasattr(each, "clone") else each.copy() for each in self._arrays]
        self._was_called = False
        self.changed = False
        """Whether the first call has changed them."""

    def look(self) -> None:
        """Find out whether the call before has changed them, if it was the first."""
        if not self._was_called:
            self._was_called = True
            self.changed = not all(map(_equal, self._arrays, self._copies))

    def restore(self) -> None:
        """Make them as they were, in place; nothing if they do not change."""
        if self.changed:
            for array, copy in zip(self._arrays, self._copies):
                array[...] = copy


class RestoringClock:
    """A clock that restores the inputs before and after each call, outside of what it times."""

    def __init__(self, clock: Clock, inputs: KeptInputs) -> None:
        self._clock, self._inputs = clock, inputs

    def time(self, call: Callable[[], Any]) -> Times:
        self._inputs.restore()
        sample = self._clock.time(call)
        self._inputs.look()
        self._inputs.restore()  # a turn may begin with a call that is not timed
        return sample


def with_own_inputs(built: Built, inputs: KeptInputs) -> Built:
    """``built`` after the timing: if its model changes its inputs, each call gets a copy of them from now on."""
    inputs.restore()
    own = built.model if built.generating is None else built.generating.model
    if not inputs.changed or not isinstance(own, ComposableModel):
        return built
    own = own.composed(lambda forward: lambda *args: forward(*moved(args, lambda tensor: tensor.clone())))
    if built.generating is None:
        return replace(built, model=own, changes_inputs=True)
    generating = replace(built.generating, model=own)
    return replace(built, model=generating.whole(), generating=generating, changes_inputs=True)


def _is_dense(value: Any) -> bool:
    import numpy as np

    return isinstance(value, np.ndarray) or str(getattr(value, "layout", "")) == "torch.strided"


def _equal(first: Any, second: Any) -> bool:
    """Whether two arrays hold the same numbers; NaN is the same as NaN."""
    return bool(((first == second) | ((first != first) & (second != second))).all())

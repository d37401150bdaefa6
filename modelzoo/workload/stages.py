"""What a workload declares so that its whole pipeline can be timed: the stages before and after the model.

A pipeline turns what a user has (the bytes of a picture, the text of a question) into what a user wants (labels,
boxes, an answer). ``Workload.stages`` returns a ``Stages``; the model is the stage between ``before`` and ``after``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.errors import UsageError
from modelzoo.records.pipeline import RESERVED_NAMES, Place


@dataclass(frozen=True)
class ModelInput:
    """What the last stage before the model returns.

    Attributes:
        args: the model's positional arguments, as ``Inputs.args``.
        context: what the stage after the model needs besides the output, such as the sizes of the pictures.
    """

    args: tuple[Any, ...]
    context: Any = None


@dataclass(frozen=True)
class ModelOutput:
    """What the first stage after the model takes.

    Attributes:
        output: the model's output, as its judge expects it.
        context: that of the ``ModelInput``.
    """

    output: Any
    context: Any = None


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline.

    Attributes:
        name: unique within the workload.
        call: takes what the stage before it returned, and returns what the next one takes. It must not change its
            argument, and several batches may be in different stages at the same time.
        place: ``"host"`` if it works on the CPU in any case (decoding, tokenizing), ``"device"`` if its tensors are
            on the setting's device.

    Raises:
        UsageError: the name is empty or reserved, or there is no such place.
    """

    name: str
    call: Callable[[Any], Any]
    place: str = "host"

    def __post_init__(self) -> None:
        if not self.name.strip() or self.name in RESERVED_NAMES:
            raise UsageError(f"a stage cannot be called {self.name!r}; choose another name in workload.py")
        if self.place not in [place.value for place in Place]:
            raise UsageError(f"stage {self.name!r} cannot be on {self.place!r}: write host or device in workload.py")


def whole_model(module: Any) -> Any:
    """Return the module unchanged: the model stage runs all of it."""
    return module


@dataclass(frozen=True)
class Stages:
    """The pipeline of a workload, for one batch.

    Attributes:
        source: one batch as the first stage takes it.
        items: a description of each item of the batch, which the result stores.
        before: the stages before the model; the last one returns a ``ModelInput``.
        after: the stages after the model; the first one takes a ``ModelOutput``.
        part: returns the part of the workload's ``torch.nn.Module`` that the model stage runs, where stages take over
            the rest of its work; it may change the module in place. Names and shapes of the weights stay.

    Raises:
        UsageError: there is no stage before the model, or two stages have the same name.
    """

    source: Any
    items: tuple[str, ...]
    before: tuple[Stage, ...]
    after: tuple[Stage, ...] = ()
    part: Callable[[Any], Any] = whole_model

    def __post_init__(self) -> None:
        names = [stage.name for stage in (*self.before, *self.after)]
        if not self.before:
            raise UsageError("stages need one before the model, which returns a ModelInput; see docs/workload.md")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"two stages are called {twice[0]!r}; choose other names in workload.py")

    def model_input(self) -> ModelInput:
        """Run the stages before the model, on the CPU.

        Raises:
            UsageError: the last one does not return a ``ModelInput``.
        """
        value = self.source
        for stage in self.before:
            value = stage.call(value)
        if not isinstance(value, ModelInput):
            raise UsageError(
                f"stage {self.before[-1].name!r} returned {type(value).__name__}, and the last stage before the model "
                "must return a ModelInput; see docs/workload.md"
            )
        return value

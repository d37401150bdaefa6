"""What a workload declares: its model, inputs, options, checkpoint and judge.

A workload directory holds a ``workload.py`` with one ``Workload`` named ``WORKLOAD``; ``modelzoo.workload.discovery``
finds and loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from modelzoo.errors import UsageError
from modelzoo.records.workload import Count
from modelzoo.workload.checkpoints import Checkpoint
from modelzoo.workload.stages import Stages


@dataclass(frozen=True)
class Option:
    """A command-line option of one workload, given as ``--name VALUE`` or ``--option name=VALUE``.

    Attributes:
        name: the name, without dashes in front.
        default: the value if the option is not given.
        help: text for ``--help``.
        type: converts the text to the value (``int``, ``str``).
        choices: the values that are allowed, or ``None`` for any.
        minimum: smallest value that is allowed.
        maximum: largest value that is allowed.
        is_input: whether the option changes the inputs only, and not the weights.
    """

    name: str
    default: Any
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    is_input: bool = False

    def parse(self, text: Any) -> Any:
        """Return the value of ``text``.

        Raises:
            UsageError: it is not of this type, not one of the choices, or out of bounds.
        """
        try:
            value = self.type(text)
        except (TypeError, ValueError):
            raise UsageError(f"--{self.name} cannot be {text!r}: {self.help}") from None
        if self.choices is not None and value not in self.choices:
            raise UsageError(f"--{self.name} must be one of {', '.join(map(str, self.choices))}, not {text!r}")
        if self.minimum is not None and value < self.minimum:
            raise UsageError(f"--{self.name} must be {self.minimum} or more, not {value}")
        if self.maximum is not None and value > self.maximum:
            raise UsageError(f"--{self.name} must be {self.maximum} or less, not {value}")
        return value


@dataclass(frozen=True)
class InputRequest:
    """The argument of ``Workload.inputs``.

    Attributes:
        batch: number of items.
        seed: seed of everything that is drawn at random.
        path: the user's file or directory (``--input``), or ``None`` for the workload's own inputs.
        options: the workload's option values.
        model_path: the checkpoint directory, which may hold a tokenizer; ``None`` if the weights are a single file.
    """

    batch: int
    seed: int
    path: Path | None
    options: Mapping[str, Any]
    model_path: Path | None = None


@dataclass(frozen=True)
class Inputs:
    """One batch.

    Attributes:
        args: the model's positional arguments.
        items: a description of each item, which the result stores.
    """

    args: tuple[Any, ...]
    items: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """One model with its inputs.

    The functions import torch themselves, so that declaring a workload stays fast. ``options`` are the option values
    by name.

    Attributes:
        name: the workload's name in the ``[TARGET]`` line.
        title: a short description for tables and ``--help``.
        unit: what throughput counts ("images", "questions").
        build: ``(options)`` to an untrained ``torch.nn.Module``, which is called as ``model(*inputs.args)``.
        inputs: ``(InputRequest)`` to ``Inputs``.
        checkpoint: ``(options)`` to the published ``Checkpoint``, or to ``None`` if there is none.
        load: ``(options, path)`` to a trained model. By default, a state dict is loaded into ``build(options)``, and
            all names must match.
        randomize: ``(model, inputs, seed)`` adjusts random weights in place, for models whose amount of work depends
            on the values. ``modelzoo.workload`` has functions for this.
        count: ``(model, inputs)`` to the ``Count`` records of one pass. It is called outside the timing.
        heads: ``(model)`` to the submodules of a detector, by name, whose outputs are its raw predictions before NMS.
            They are compared if another engine runs the model; NMS would hide or magnify small differences.
        options: options that only this workload has.
        batch: the default batch size.
        script: how ``--mode script`` gets its graph, ``"trace"`` or ``"script"``.
        defaults: the default inputs as text, for ``--help``.
        judge: ``(options)`` to the declaration of how predictions are judged, such as
            ``modelzoo.validity.Classification``; ``None`` if they cannot be judged.
        stages: ``(InputRequest)`` to the ``Stages`` of the whole pipeline, which ``--stages`` times; ``None`` if there
            are none.
        libraries: modules that the functions import. They are imported before the model is built, so that the time of
            each is known.
        directory: the workload's directory, set when it is loaded.
    """

    name: str
    title: str
    unit: str
    build: Callable[[Mapping[str, Any]], Any]
    inputs: Callable[[InputRequest], Inputs]
    checkpoint: Callable[[Mapping[str, Any]], Checkpoint | None] = lambda options: None
    load: Callable[[Mapping[str, Any], Path], Any] | None = None
    randomize: Callable[[Any, Inputs, int], None] | None = None
    count: Callable[[Any, Inputs], Sequence[Count]] | None = None
    heads: Callable[[Any], Mapping[str, Any]] | None = None
    options: tuple[Option, ...] = ()
    batch: int = 1
    script: str = "trace"
    defaults: str = ""
    judge: Callable[[Mapping[str, Any]], Any] | None = None
    stages: Callable[[InputRequest], Stages] | None = None
    libraries: tuple[str, ...] = ()
    directory: Path = field(default=Path(), compare=False)

    def option_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every option: those ``given``, as text or values, and the others' defaults.

        Raises:
            UsageError: a name is unknown, or a value is not allowed.
        """
        by_name = {option.name: option for option in self.options}
        for name in given:
            if name not in by_name:
                known = ", ".join(sorted(by_name)) or "none"
                raise UsageError(f"workload {self.name} has no option {name!r} (it has: {known})")
        defaults = {option.name: option.default for option in self.options}
        return {**defaults, **{name: by_name[name].parse(value) for name, value in given.items()}}

    def checkpoints(self) -> list[Checkpoint]:
        """Return each published checkpoint: that of the default options first, then those of other choices."""
        choices = [{}, *({option.name: choice} for option in self.options for choice in option.choices or ())]
        found = (self.checkpoint(self.option_values(each)) for each in choices)
        return list({each.source: each for each in found if each is not None}.values())

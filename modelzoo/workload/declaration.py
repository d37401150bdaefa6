"""What a workload declares: its model, inputs, stages, options, checkpoint and judge.

A workload directory holds a ``workload.py`` with one ``Workload`` named ``WORKLOAD``; ``modelzoo.workload.discovery``
finds and loads it. A pipeline turns what a user has (the bytes of a picture, the text of a question) into what a user
wants (labels, boxes, an answer); the model is the stage between ``before`` and ``after``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.timing import RESERVED_NAMES, Place
from modelzoo.records.workload import Count, Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.checkpoints import Checkpoint
from modelzoo.workload.generation import Generation
from modelzoo.workload.nested import leaves

SOURCES = ("auto", "pretrained", "random")
"""Values of ``--weights`` that are not paths."""


class ModelInput(msgspec.Struct, frozen=True):
    """What the last stage before the model returns.

    Attributes:
        args: the model's positional arguments, as ``Inputs.args``.
        context: what the stage after the model needs besides the output, such as the sizes of the pictures.
    """

    args: tuple[Any, ...]
    context: Any = None


class ModelOutput(msgspec.Struct, frozen=True):
    """What the first stage after the model takes.

    Attributes:
        output: the model's output, as its judge expects it.
        context: that of the ``ModelInput``.
    """

    output: Any
    context: Any = None


class Stage(msgspec.Struct, frozen=True):
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


class Stages(msgspec.Struct, frozen=True):
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


class Option(msgspec.Struct, frozen=True):
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
        by_checkpoint: whether a checkpoint directory decides it: it has no value with ``--weights PATH``.
    """

    name: str
    default: Any
    help: str
    type: Callable[[str], Any] = str
    choices: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    is_input: bool = False
    by_checkpoint: bool = False

    def parse(self, text: Any, typed: str = "") -> Any:
        """Return the value of ``text``.

        Args:
            text: the value, as text or already of its type.
            typed: the option as the command line has it, for errors; by default ``--NAME``.

        Raises:
            UsageError: it is not of this type, not one of the choices, or out of bounds.
        """
        typed = typed or f"--{self.name}"
        try:
            value = self.type(text)
        except (TypeError, ValueError):
            raise UsageError(f"{typed} cannot be {text!r}: {self.help}") from None
        if self.choices is not None and value not in self.choices:
            raise UsageError(f"{typed} must be one of {', '.join(map(str, self.choices))}, not {text!r}")
        if self.minimum is not None and value < self.minimum:
            raise UsageError(f"{typed} must be {self.minimum} or more, not {value}")
        if self.maximum is not None and value > self.maximum:
            raise UsageError(f"{typed} must be {self.maximum} or less, not {value}")
        return value


class InputRequest(msgspec.Struct, frozen=True):
    """The argument of ``Workload.inputs``.

    Attributes:
        batch: number of items.
        seed: seed of everything that is drawn at random.
        path: the user's file or directory (``--input``), or ``None`` for the workload's own inputs.
        options: the workload's option values.
        model_path: the checkpoint directory, which may hold a tokenizer; ``None`` if the weights are a single file.
        skip: items to leave out at the beginning, so that a batch for calibration holds none that is measured. Those
            that follow must have the shapes of the first.
    """

    batch: int
    seed: int
    path: Path | None
    options: Mapping[str, Any]
    model_path: Path | None = None
    skip: int = 0


class Inputs(msgspec.Struct, frozen=True):
    """One batch.

    Attributes:
        args: the model's positional arguments.
        items: a description of each item, which the result stores.

    Raises:
        UsageError: ``args`` is no tuple; of a mapping, a model would be given the keys.
    """

    args: tuple[Any, ...]
    items: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.args, (tuple, list)):
            kind = type(self.args).__name__
            raise UsageError(f"args of Inputs is a {kind}, and must be a tuple of arguments: write args=(…,)")


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
        generate: ``(options)`` to the ``Generation`` of a language model, which is then timed token by token; ``None``
            if a call is one forward pass.
        libraries: modules that the functions import. They are imported before the model is built, so that the time of
            each is known.
        weights: what ``--weights auto`` means: a path, for a model that is named by its checkpoint's directory.
        identity: what decides the network beside the name, the options and the code, such as a digest of its config.
        directory: of its code, set when it is loaded.
        place: what ``modelzoo.workload.discovery.load_workload`` loaded it from, set likewise.
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
    generate: Callable[[Mapping[str, Any]], Generation] | None = None
    libraries: tuple[str, ...] = ()
    weights: str = "auto"
    identity: str = ""
    directory: Path = field(default=Path(), compare=False)
    place: str = field(default="", compare=False)

    def option_values(self, given: Mapping[str, Any], weights: str = "auto") -> dict[str, Any]:
        """Return the value of every option: those ``given``, as text or values, and the others' defaults.

        Args:
            given: by name.
            weights: value of ``--weights``; a path leaves out what the checkpoint decides.

        Raises:
            UsageError: a name is unknown, or a value is not allowed.
        """
        by_name = {each.name: each for each in self.options if weights in SOURCES or not each.by_checkpoint}
        for name in given:
            if name not in by_name:
                if any(option.name == name for option in self.options):
                    raise UsageError(f"--{name} is decided by --weights {weights}: leave one of both out")
                known = ", ".join(sorted(by_name)) or "none"
                raise UsageError(f"workload {self.name} has no option {name!r} (it has: {known})")
        defaults = {name: option.default for name, option in by_name.items()}
        return {**defaults, **{name: by_name[name].parse(value) for name, value in given.items()}}

    def checkpoints(self) -> list[Checkpoint]:
        """Return each published checkpoint: that of the default options first, then those of other choices."""
        choices = [{}, *({option.name: choice} for option in self.options for choice in option.choices or ())]
        found = (self.checkpoint(self.option_values(each)) for each in choices)
        return list({each.source: each for each in found if each is not None}.values())


def make_inputs(work: Workload, setting: ResolvedSetting, weights: Weights) -> Inputs:
    """Create one batch of inputs.

    Raises:
        InputError: the user's input cannot be read.
    """
    return work.inputs(input_request(setting, weights))


def input_request(setting: ResolvedSetting, weights: Weights) -> InputRequest:
    """Return what a workload must know to create one batch."""
    place = Path(weights.path)
    return InputRequest(
        batch=setting.batch,
        seed=setting.seed,
        path=Path(setting.input) if setting.input else None,
        options=setting.options,
        model_path=place if place.is_dir() else None,
    )


CALIBRATION_BATCHES = 8
"""Batches of inputs from which a static recipe takes the ranges of what is quantized."""


def calibration_inputs(work: Workload, setting: ResolvedSetting, weights: Weights) -> list[Inputs]:
    """Create batches that hold nothing of the measured one: those that follow it; never of the user's input.

    If the workload does not know ``InputRequest.skip``, they have the seeds after that of the measured one.

    Raises:
        UsageError: the workload's inputs are the same for every seed, so they are those that are measured.
    """
    request = replace(input_request(setting, weights), path=None)
    measured, numbers = inputs_digest(work.inputs(request).args), range(1, 1 + CALIBRATION_BATCHES)
    found = [work.inputs(replace(request, skip=number * request.batch)) for number in numbers]
    if measured is not None and inputs_digest(found[0].args) == measured:
        found = [work.inputs(replace(request, seed=request.seed + number)) for number in numbers]
    if measured is not None and measured in [inputs_digest(each.args) for each in found]:
        raise UsageError(
            f"{work.name}: its inputs do not depend on the seed, so recipe={setting.recipe} would take its ranges from "
            "the batch that is measured; make them from request.seed and request.skip, or use another --recipe"
        )
    return found


def inputs_digest(args: Any) -> str | None:
    """Return the SHA-256 of all arrays in ``args``, of one batch or several, with their shapes and types.

    ``None`` if numpy cannot represent one of them: a bf16 tensor, an object of the workload's own.
    """
    import hashlib

    import numpy as np

    digest = hashlib.sha256()
    for value in leaves(args):
        try:
            array = np.ascontiguousarray(np.asarray(value))
        except (TypeError, ValueError, RuntimeError):
            return None
        if array.dtype.hasobject:  # its bytes are addresses
            return None
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

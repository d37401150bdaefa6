"""What is run: the declaration in a workload directory's ``workload.py``, and how it is found.

A workload directory holds a ``workload.py`` with one object named ``WORKLOAD``. Nothing is registered
anywhere: ``modelzoo run path/to/dir`` takes any directory of that shape.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from modelzoo.errors import UsageError
from modelzoo.records.workload import Count
from modelzoo.workload.weights import Checkpoint

ROOT = Path(__file__).resolve().parents[2]
STANDARD = ("resnet50", "ssd", "maskrcnn", "bert")
"""The four that ``modelzoo run`` takes when none is named."""


@dataclass(frozen=True)
class Option:
    """An option that only this workload has, given as ``--name value``.

    ``kind`` turns the text into the value (``int``, ``str``); ``choices``, or ``least`` and ``most``,
    bound it. ``is_input`` says that it changes the inputs only: the weights are the same for all its values.
    """

    name: str
    default: Any
    help: str
    kind: Callable[[str], Any] = str
    choices: tuple[Any, ...] | None = None
    least: float | None = None
    most: float | None = None
    is_input: bool = False


@dataclass(frozen=True)
class InputRequest:
    """What ``Workload.inputs`` is asked for: ``batch`` items, from ``path`` or from the suite's own.

    ``model_path`` is the checkpoint directory where there is one (a tokenizer lies there).
    """

    batch: int
    seed: int
    path: Path | None
    options: Mapping[str, Any]
    model_path: Path | None = None


@dataclass(frozen=True)
class Inputs:
    """One batch: the model's positional arguments, and what each item is, for the record."""

    args: tuple[Any, ...]
    items: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """One model with its inputs; all callables import torch themselves, when they are called.

    Attributes:
        name: the word in the ``[TARGET]`` line.
        title: what it is, for people.
        unit: what throughput counts ("images", "questions").
        build: ``options`` to an untrained ``torch.nn.Module`` in eval mode. It is called as
            ``model(*inputs.args)``.
        inputs: ``InputRequest`` to ``Inputs``.
        checkpoint: ``options`` to the published ``Checkpoint``, or ``None`` where there is none.
        load: ``(options, path)`` to a trained model; by default ``build`` and a strict state dict.
        randomize: ``(model, inputs, seed)`` shapes random weights where the work depends on the data.
        count: ``(model, inputs)`` to the ``Count``s of one pass, outside the timing.
        batch: the default batch size.
        script: how ``--mode script`` gets its graph, ``"trace"`` or ``"script"``.
        defaults: the defaults that decide the speed, in words, for ``--help`` and the result.
        judge: how predictions are judged (an object of ``modelzoo.validity``), or ``None``.
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
    options: tuple[Option, ...] = ()
    batch: int = 1
    script: str = "trace"
    defaults: str = ""
    judge: Any = None
    directory: Path = field(default=Path(), compare=False)

    def option_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults overlaid with ``given``; raises ``UsageError`` for an unknown name or value."""
        values = {option.name: option.default for option in self.options}
        by_name = {option.name: option for option in self.options}
        for name, value in given.items():
            if name not in by_name:
                known = ", ".join(sorted(by_name)) or "none"
                raise UsageError(f"workload {self.name} has no option {name!r} (it has: {known})")
            option = by_name[name]
            try:
                values[name] = option.kind(value)
            except (TypeError, ValueError):
                raise UsageError(f"--{name} cannot be {value!r}: {option.help}") from None
            if option.choices is not None and values[name] not in option.choices:
                allowed = ", ".join(map(str, option.choices))
                raise UsageError(f"--{name} must be one of {allowed}, not {value!r}")
            if option.least is not None and values[name] < option.least:
                raise UsageError(f"--{name} must be {option.least} or more, not {value}")
            if option.most is not None and values[name] > option.most:
                raise UsageError(f"--{name} must be {option.most} or less, not {value}")
        return values


def find(name: str) -> Path:
    """Return the directory of a workload: a path to one, or the name of one beside the package.

    Raises:
        UsageError: there is no such directory.
    """
    for directory in (Path(name), ROOT / name, Path.cwd() / name):
        if (directory / "workload.py").is_file():
            return directory.resolve()
    known = ", ".join(available())
    raise UsageError(f"no workload {name!r}: give one of {known}, or a directory that holds a workload.py")


def available() -> list[str]:
    """Names of the workload directories beside the package, the four standard ones first."""
    found = {path.parent.name for path in ROOT.glob("*/workload.py")} - {"modelzoo"}
    return [name for name in STANDARD if name in found] + sorted(found - set(STANDARD))


def load(directory: Path) -> Workload:
    """Import ``directory/workload.py`` and return its ``WORKLOAD``.

    Raises:
        UsageError: the file does not declare one, or cannot be imported.
    """
    path = directory / "workload.py"
    spec = importlib.util.spec_from_file_location(f"modelzoo_workload_{directory.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    workload = getattr(module, "WORKLOAD", None)
    if not isinstance(workload, Workload):
        raise UsageError(f"{path} must define WORKLOAD = modelzoo.workload.Workload(...)")
    from dataclasses import replace

    return replace(workload, directory=directory)

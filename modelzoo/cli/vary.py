"""The grammar of ``--vary NAME=V1,V2``, ``--setting "NAME=VALUE …"`` and ``--baseline``.

All of them come down to the options of one setting each, as text: ``{"mode": "compile", "threads": "2"}`` is what
``--mode compile --threads 2`` would say.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelzoo.errors import UsageError
from modelzoo.setting import CONVERTING, Setting, option_name, parse_words

FIELDS = tuple(option_name(name) for name in Setting.__struct_fields__ if name != "options")
"""The options of every setting; a workload's own options come in addition."""
MAX_SETTINGS = 64
"""Settings of one workload; more would take hours, and are more likely a mistake."""

Given = dict[str, str]
"""What one setting names: values by option."""


@dataclass(frozen=True)
class Axis:
    """One option with the values that it takes in turn.

    Attributes:
        name: the option.
        choices: what each value sets; ``precision`` and ``bf16`` share an axis, because only bf16 and fp16 have a
            method.
    """

    name: str
    choices: tuple[Given, ...]


def parse_axis(text: str) -> Axis:
    """Parse the ``NAME=V1,V2,…`` of ``--vary``; raises ``UsageError``."""
    name, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not (name and equals):
        raise UsageError(f"--vary {text!r} must have the form NAME=V1,V2,…, for example mode=eager,compile")
    if not all(words):
        raise UsageError(f"--vary {text!r} has an empty value; write NAME=V1,V2,…")
    return Axis(name, tuple({name: word} for word in words))


def parse_setting(text: str, option: str = "--setting") -> Given:
    """Parse ``NAME=VALUE NAME=VALUE …``; a value with spaces is quoted as in a shell.

    Raises:
        UsageError: it has another form, is empty, or names an option twice.
    """
    given = parse_words(text, f"{option} {text!r}")
    if not given:
        raise UsageError(f"{option} {text!r} names nothing; for the default setting, write mode=eager")
    return given


def parse_settings(texts: Sequence[str]) -> list[Given]:
    """Parse every ``--setting``; ``@FILE`` stands for the lines of a file, in which ``#`` begins a comment.

    Raises:
        UsageError: a setting has another form, or the file cannot be read or has no settings.
    """
    found = []
    for text in texts:
        lines = _lines(text[1:]) if text.startswith("@") else [text]
        found += [parse_setting(line) for line in lines]
    return found


def _lines(name: str) -> list[str]:
    try:
        content = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(f"--setting @{name} cannot be read: {reason}") from error
    # A comment begins a word: file names may contain a "#".
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in content.splitlines()]
    if not any(line.strip() for line in lines):
        raise UsageError(f"--setting @{name}: the file names no setting; write one on each line")
    return [line for line in lines if line.strip()]


def combine(axes: Sequence[Axis]) -> list[Given]:
    """Return every combination of the axes' values; the first axis varies slowest.

    Raises:
        UsageError: an axis is named twice, contradicts another, or there are too many combinations.
    """
    names = [axis.name for axis in axes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is varied twice; give all of its values in one list")
    merged = _with_methods(axes)
    check_number(math.prod(len(axis.choices) for axis in merged))
    return [
        {name: value for choice in choices for name, value in choice.items()}
        for choices in itertools.product(*(axis.choices for axis in merged))
    ]


def _with_methods(axes: Sequence[Axis]) -> list[Axis]:
    """Merge the axis ``bf16`` into ``precision``, so that each method occurs with bf16 or fp16, none with fp32."""
    methods = next((axis for axis in axes if axis.name == "bf16"), None)
    precisions = next((axis for axis in axes if axis.name == "precision"), None)
    if methods is None or precisions is None:
        return list(axes)
    if not any(choice["precision"] in CONVERTING for choice in precisions.choices):
        raise UsageError("bf16 is varied, but bf16 is not among the precisions; add it, or leave one of the two out")
    merged = []
    for axis in axes:
        if axis.name == "precision":
            choices: list[Given] = []
            for choice in axis.choices:
                converts = choice["precision"] in CONVERTING
                choices += [{**choice, **method} for method in methods.choices] if converts else [choice]
            merged.append(Axis("precision", tuple(choices)))
        elif axis is not methods:
            merged.append(axis)
    return merged


def check_number(count: int) -> None:
    """Raise ``UsageError`` if ``count`` settings of one workload are too many."""
    if count > MAX_SETTINGS:
        raise UsageError(f"these are {count} settings of one workload, and {MAX_SETTINGS} are the most; vary less")


def check_names(names: Collection[str], options: Collection[str], where: str) -> None:
    """Check that every name is one of ``FIELDS`` or of the workloads' ``options``; raises ``UsageError``."""
    for name in names:
        if name not in FIELDS and name not in options:
            own = f"; the workloads' own: {', '.join(sorted(options))}" if options else ""
            raise UsageError(f"{where}: there is no option {name!r} (there are: {', '.join(FIELDS)}{own})")

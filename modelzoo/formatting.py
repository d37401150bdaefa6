"""Numbers as text, for tables and messages. Pure functions; SI units."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import PurePath

DIGEST_DIGITS = 12
"""Hexadecimal digits of a digest or a commit that are shown."""
DOUBLE_DIGITS = 17
"""Decimal digits that tell any two different floating-point numbers apart."""
MISSING = "–"
"""Shown for a value that is not known."""


def printable(text: str) -> str:
    """Return ``text`` on one line, with every character that a terminal would not show as such escaped as in Python.

    >>> printable("a\\nb \\x1b[31m")
    'a\\\\nb \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def for_people(text: str) -> str:
    r"""Return ``text`` as ``printable`` does, and so that no line of it can be taken for one that scripts parse.

    >>> print(for_people("[TARGET] toy Time 1"))
    \x5bTARGET] toy Time 1
    """
    return printable(text).replace("[TARGET]", r"\x5bTARGET]").replace("[VALID]", r"\x5bVALID]")


def word(text: str) -> str:
    """Return ``text`` as one word of a line that scripts parse: a hyphen stands for blanks.

    >>> word("my net\\n[TARGET] x")
    'my-net-[TARGET]-x'
    """
    return printable(re.sub(r"\s+", "-", text)) or "-"


def shown_json(text: str) -> str:
    r"""Return JSON that is equal to ``text`` and has no character that a terminal would not show as such.

    >>> print(shown_json('["\x9b", "\u202e"]'))
    ["\u009b", "\u202e"]
    """
    is_shown = text.replace("\n", "").isprintable()
    return text if is_shown else "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def without_options(words: Iterable[str], options: Collection[str]) -> list[str]:
    """Return a command line without these options, each of which has a value, however they were written.

    >>> without_options(["bert", "-oa.json", "-o", "b.json", "--json=c.json", "--batch", "4"], ["-o", "--json"])
    ['bert', '--batch', '4']
    """
    kept, left = [], iter(words)
    for each in left:
        if each in options:
            next(left, None)
        elif each.partition("=")[0] not in options and (each.startswith("--") or each[:2] not in options):
            kept.append(each)
    return kept


def capitalized(text: str) -> str:
    """Return ``text`` with a capital first letter; unlike ``str.capitalize`` it leaves the others as they are."""
    return text[:1].upper() + text[1:]


def significant(value: float, digits: int = 4) -> str:
    """Format ``value`` to ``digits`` significant digits, in plain decimals without an exponent.

    >>> significant(0.0561234)
    '0.05612'
    """
    if value == 0 or not math.isfinite(value):
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = f"{value:.{decimals}f}"
    # 0.99996 rounds up to 1.0000, which has one digit too many.
    if len(rounded.replace(".", "").lstrip("0")) > digits and decimals:
        rounded = f"{value:.{decimals - 1}f}"
    return rounded


def general(value: float, digits: int) -> str:
    """Format ``value`` to ``digits`` significant digits, without trailing zeros."""
    return f"{value:.{digits}g}"


def scientific(value: float, digits: int) -> str:
    """Format ``value`` to ``digits`` significant digits, with an exponent."""
    return f"{value:.{digits - 1}e}"


def apart(*values: float | None, digits: int = 4, show: Callable[[float, int], str] = general) -> tuple[str, ...]:
    """Format values and, as the last one, their threshold, with as many more digits as it takes to tell them apart.

    >>> apart(0.0202, 0.02, digits=2), apart(0.013, 0.02, digits=2)
    (('0.0202', '0.02'), ('0.013', '0.02'))
    """
    texts: tuple[str, ...] = ()
    for more in range(DOUBLE_DIGITS):
        texts = tuple(MISSING if each is None else show(each, digits + more) for each in values)
        if all((text == texts[-1]) == (value == values[-1]) for text, value in zip(texts, values)):
            break
    return texts


def rounded_down(value: float) -> str:
    """Format a positive value to 3 significant digits that are not more than it: a rate that can be kept up.

    >>> rounded_down(13.68), rounded_down(13.7), rounded_down(1239.0)
    ('13.6', '13.7', '1230')
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return significant(math.floor(value / step + 1e-9) * step, 3)


def duration(value: float) -> str:
    """Format a time that people wait, in seconds, to two units: ``7 s``, ``12 min 30 s``, ``1 h 2 min``."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def seconds(value: float | None, digits: int = 4) -> str:
    """Format a time in seconds with a suitable unit: ``56.12 ms``, ``4.912 s``, ``812.0 µs``."""
    if value is None:
        return MISSING
    unit, factor = time_unit(value)
    return f"{significant(value * factor, digits)} {unit}"


def seconds_together(values: Sequence[float]) -> str:
    """Format several times in the unit of the largest: ``62.0, 59.2, 74.6 ms``."""
    unit, factor = time_unit(max(values))
    return ", ".join(significant(factor * value, 3) for value in values) + f" {unit}"


def cpus(numbers: Sequence[int], most: int | None = None) -> str:
    """Name logical CPUs, at most ``most`` of them: ``CPU 3``, ``CPUs 0, 96``, ``CPUs 0, 1 …``."""
    more = " …" if most is not None and len(numbers) > most else ""
    return f"CPU{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:most]))}{more}"


def percent(fraction: float) -> str:
    """Format a relative half width: ``1.3 %``; ``over 100 %`` if the interval is wider than its value."""
    return f"{100 * fraction:.1f} %" if fraction < 1 else "over 100 %"


def share(fraction: float | None, decimals: int = 1) -> str:
    """Format a share of a whole: ``93.1 %``."""
    return MISSING if fraction is None else f"{100 * fraction:.{decimals}f} %"


def number(value: float | None, form: str = ".4g", unknown: str = MISSING) -> str:
    """Format a number as ``form`` says, or ``unknown`` in place of ``None``."""
    return unknown if value is None else format(value, form)


def counted(count: int | None, noun: str) -> str:
    """Format a number of things: ``1 core``, ``1,024 cores``; ``? cores`` if it is not known."""
    return f"{'?' if count is None else f'{count:,}'} {noun}{'' if count == 1 else 's'}"


def operations(count: float) -> str:
    """Format a number of floating-point operations.

    >>> operations(5.46e9), operations(2.7e8), operations(61440)
    ('5.5 GFLOP', '270 MFLOP', '61.4 kFLOP')
    """
    if count >= 1e9:
        return f"{count / 1e9:.1f} GFLOP"
    return f"{significant(count / 1e6, 3)} MFLOP" if count >= 1e6 else f"{significant(count / 1e3, 3)} kFLOP"


def time_unit(value: float) -> tuple[str, float]:
    """Return the unit in which a time in seconds is shown, and how many of it a second has."""
    return ("µs", 1e6) if value < 1e-3 else ("ms", 1e3) if value < 1 else ("s", 1.0)


class Merged:
    """Several values in the place of one: numbers are formatted as a range, of texts each is said once.

    >>> f"{Merged([0.96, 0.171]):.2f} cores of {Merged(['a', 'b', 'a'])}"
    '0.17 to 0.96 cores of a; b'
    """

    def __init__(self, values: Iterable[int | float | str]) -> None:
        self._values = list(values)

    def __format__(self, spec: str) -> str:
        numbers = [value for value in self._values if not isinstance(value, str)]
        if len(numbers) < len(self._values):
            return "; ".join(dict.fromkeys(map(str, self._values)))
        low, high = format(min(numbers), spec), format(max(numbers), spec)
        return low if low == high else f"{low} to {high}"


def launcher_names(values: Collection[str]) -> dict[str, str]:
    """A short name for each interpreter or image, as long as it takes to tell them apart.

    An interpreter is called after its environment, an image of this suite by its tag.

    >>> launcher_names(["/home/me/envs/torch-2.9.1/bin/python", "/home/me/.venv/bin/python"])
    {'/home/me/envs/torch-2.9.1/bin/python': 'torch-2.9.1', '/home/me/.venv/bin/python': '.venv'}
    >>> launcher_names(["/usr/bin/python3.10", "/usr/bin/python3.11"])
    {'/usr/bin/python3.10': 'python3.10', '/usr/bin/python3.11': 'python3.11'}
    >>> launcher_names(["zoo:torch1.13.0_acl", "zoo:torch2.10.0_acl"])
    {'zoo:torch1.13.0_acl': 'torch1.13.0_acl', 'zoo:torch2.10.0_acl': 'torch2.10.0_acl'}
    """
    distinct = list(dict.fromkeys(values))
    longest = max((len(PurePath(value).parts) for value in distinct), default=0)
    choices = [[_environment_name(value) for value in distinct]]
    choices += [["/".join(PurePath(value).parts[-count:]) for value in distinct] for count in range(1, longest)]
    return dict(zip(distinct, next((names for names in choices if len(set(names)) == len(names)), distinct)))


def _environment_name(value: str) -> str:
    """``torch-2.9.1`` for ``/envs/torch-2.9.1/bin/python``, and the tag of an image."""
    path = PurePath(value)
    if value.startswith(("/", "~")):  # stored results have ~ in place of the home directory
        environment = path.parent.parent.name if path.parent.name == "bin" else ""
        return path.name if environment in ("", "usr", "local") else environment
    tag = value.rpartition(":")[2]
    return value if not tag or "/" in tag or "@" in value else tag

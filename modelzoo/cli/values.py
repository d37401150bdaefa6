"""Values of options that have a unit. Errors are ``argparse.ArgumentTypeError``, which argparse shows in one line."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHORT_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"


def duration(text: str) -> float:
    """Return a duration in seconds: ``90s``, ``10m``, ``2h``, ``1h30m``.

    >>> duration("1h30m")
    5400.0
    """
    parts = re.findall(rf"({_NUMBER})([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is not a duration; write it with its unit: 90s, 10m or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def fraction(text: str) -> float:
    """Return a fraction, given as such or as a percentage: ``0.05``, ``5%``.

    Without the sign, a number from 1 on is refused: who writes 3 may mean 3 % as well as 300 %.

    >>> fraction("5%")
    0.05
    """
    number = text[:-1].rstrip() if text.endswith("%") else text
    if not re.fullmatch(_NUMBER, number):
        raise ArgumentTypeError(f"{text!r} is not a fraction; write 5% or 0.05")
    if number == text and float(text) >= 1:
        raise ArgumentTypeError(
            f"{text!r} may mean {text} % or {100 * float(text):g} %; write it with its sign: {text}%"
        )
    return float(number) / (100 if text.endswith("%") else 1)


def short_time(text: str) -> float:
    """Return a time in seconds that is given in milliseconds, microseconds or seconds.

    >>> short_time("5ms")
    0.005
    """
    found = re.fullmatch(rf"({_NUMBER})(ms|us|µs|s)", text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a time; write it with its unit: 5ms, 250us or 1.5s")
    return float(found[1]) * _SHORT_UNITS[found[2]]


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return a list of numbers from 1 on: ``1,2,4``.

    >>> whole_numbers("1,2,4")
    (1, 2, 4)
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise ArgumentTypeError(f"{text!r} is not a list of whole numbers over 0, such as 1,2,4")
    return tuple(dict.fromkeys(map(int, words)))

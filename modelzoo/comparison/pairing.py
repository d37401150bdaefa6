"""Which setting of one side is compared with which one of the other: by what was asked for. Pure.

Paths say where a file was, not what was in it, so only their last part counts; whether both sides read the same file
is a matter of its digest (``modelzoo.comparison.refusals``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Optional

import msgspec

from modelzoo.comparison.model import SideSetting
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.setting import CONVERTING, SHOWN, OptionValue, Setting, labels, option_name, parse_words, value_text

Words = Mapping[str, str]
"""A setting in the notation of ``--setting``: values as text, by the names of the options."""
_SEPARATOR = re.compile(r":(?=\s*[\w-]+=)")
"""The colon of ``--pair``; one within a value (``cuda:1``) is not followed by a name."""


class Pairing(msgspec.Struct, frozen=True):
    """Settings that are paired on purpose although they differ.

    Attributes:
        before: what a setting of the baseline must have to be paired.
        after: what the other side's setting has instead; it equals the baseline's in everything else.
    """

    before: Words
    after: Words


class Pair(msgspec.Struct, frozen=True):
    """One row: a setting of each side, or of one of them only.

    Attributes:
        base: the baseline's; ``None`` if it does not have the setting.
        other: likewise.
        on_purpose: names of the options that differ because ``--pair`` asked for it.
    """

    base: Optional[SideSetting]
    other: Optional[SideSetting]
    on_purpose: tuple[str, ...] = ()


def parse_pairing(text: str) -> Pairing:
    """Parse ``NAME=VALUE …:NAME=VALUE …``, for example ``precision=fp32:precision=bf16``.

    Raises:
        UsageError: it has another form, or names an option twice.
    """
    halves = _SEPARATOR.split(text)
    if len(halves) != 2:
        raise UsageError(f"--pair {text!r} must have the form BASE:OTHER, for example precision=fp32:precision=bf16")
    before, after = (_words(half, text) for half in halves)
    return Pairing(before, after)


def _words(half: str, text: str) -> Words:
    found = parse_words(half, f"--pair {text!r}", " on one side")
    if not found:
        raise UsageError(f"--pair {text!r} names nothing on one side; write NAME=VALUE on both sides of the colon")
    return found


def words(asked: Setting) -> dict[str, str]:
    """Return a setting in the notation of ``--setting``. Paths are shortened to what says something elsewhere."""
    found = {option_name(name): _text(getattr(asked, name)) for name in SHOWN}
    found["bf16"] = asked.bf16_method or "auto" if asked.precision in CONVERTING else "off"
    for name, value in sorted(asked.options.items()):
        found.setdefault(name, _text(value))
    return found


def _text(value: OptionValue) -> str:
    if isinstance(value, str) and value.startswith(("/", "~/")):  # the home directory is stored as ~
        return _last(PurePath(value)) or value
    return value_text(value)


def _last(path: PurePath) -> str:
    """The name of a file, or of the environment of an interpreter (``/envs/torch-2.9.1/bin/python``)."""
    return path.parent.parent.name if path.parent.name == "bin" else path.name


def pairs(base: Sequence[SideSetting], other: Sequence[SideSetting], on_purpose: Sequence[Pairing] = ()) -> list[Pair]:
    """Pair the settings of two sides, in the baseline's order; what only the other side has comes last.

    A setting that occurs several times on both sides is paired in order. What ``on_purpose`` pairs is not also paired
    with its equal, and its equal is not reported as missing.

    Raises:
        UsageError: one of ``on_purpose`` pairs nothing.
    """
    known = _known_options(base, other)
    mine, theirs = _keyed(base, known), _keyed(other, known)
    chosen = [pair for each in on_purpose for pair in _chosen(each, mine, theirs)]
    used_mine = {pair[0] for pair in chosen}
    used_theirs = {pair[1] for pair in chosen}
    found: list[tuple[Optional[_Key], Optional[_Key], tuple[str, ...]]] = []
    for key in mine:
        found += [pair for pair in chosen if pair[0] == key]
        if key not in used_mine and key not in used_theirs:
            found.append((key, key if key in theirs else None, ()))
    found += [(None, key, ()) for key in theirs if key not in mine and key not in used_theirs]
    names = _labels([*mine, *theirs], [*mine.values(), *theirs.values()])
    return [
        Pair(
            None if first is None else replace(mine[first], label=names[first]),
            None if second is None else replace(theirs[second], label=names[second]),
            differing,
        )
        for first, second, differing in found
    ]


class _Key(msgspec.Struct, frozen=True):
    """Equal for two settings that are paired; unique on each side.

    Attributes:
        workload: the workload's name.
        words: the setting as text, without options that only one side's release knows.
        number: from 1, counts equal settings of one side.
    """

    workload: str
    words: tuple[tuple[str, str], ...]
    number: int


def _keyed(sides: Sequence[SideSetting], known: Mapping[str, set[str]]) -> dict[_Key, SideSetting]:
    found: dict[_Key, SideSetting] = {}
    for side in sides:
        unknown = set(side.asked.options) - known[side.workload]
        key = _Key(side.workload, tuple((k, v) for k, v in words(side.asked).items() if k not in unknown), 1)
        while key in found:
            key = replace(key, number=key.number + 1)
        found[key] = side
    return found


def _known_options(base: Sequence[SideSetting], other: Sequence[SideSetting]) -> dict[str, set[str]]:
    """The options of each workload that all settings have, and those that a side varies."""
    common: dict[str, set[str]] = {}
    varied: dict[str, set[str]] = {}
    for sides in (base, other):
        first: dict[str, Setting] = {}
        for side in sides:
            options, before = side.asked.options, first.setdefault(side.workload, side.asked).options
            common[side.workload] = common.get(side.workload, set(options)) & set(options)
            varied.setdefault(side.workload, set()).update(
                name for name in options if options[name] != before.get(name)
            )
    return {workload: names | varied[workload] for workload, names in common.items()}


def _chosen(
    pairing: Pairing, mine: Iterable[_Key], theirs: Mapping[_Key, SideSetting]
) -> list[tuple[_Key, _Key, tuple[str, ...]]]:
    """The pairs that ``--pair`` names: the other side's setting is the baseline's with ``after`` in it."""
    before, after = _with_precision(pairing.before), _with_precision(pairing.after)
    found = [
        (first, second, tuple(name for name, value in first.words if value != dict(second.words)[name]))
        for first in mine
        if before.items() <= dict(first.words).items()
        for second in theirs
        if _is_changed(first, second, after)
    ]
    if not found:
        asked = f"{_shown(pairing.before)}:{_shown(pairing.after)}"
        raise UsageError(f"--pair {asked!r} pairs nothing: no two settings differ in this and in nothing else")
    return found


def _is_changed(first: _Key, second: _Key, after: Words) -> bool:
    """Whether ``second`` is ``first`` with ``after`` in it."""
    expected, given = {**dict(first.words), **after}, dict(second.words)
    if "precision" in after and "bf16" not in after:
        # A method that is not named may be any one.
        expected["bf16"] = given["bf16"]
    return (first.workload, first.number, expected) == (second.workload, second.number, given)


def _with_precision(given: Words) -> Words:
    """A bf16 method means bf16."""
    return {"precision": "bf16", **given} if "bf16" in given else given


def _shown(given: Words) -> str:
    return " ".join(f"{name}={value}" for name, value in given.items())


def _labels(keys: Sequence[_Key], sides: Sequence[SideSetting]) -> dict[_Key, str]:
    """The same label for equal settings of both sides, which tells them from all others of the workload."""
    plain: dict[str, dict[_Key, Setting]] = {}
    for key, side in zip(keys, sides):
        plain.setdefault(key.workload, {}).setdefault(key, _plain(side.asked, dict(key.words)))
    found: dict[_Key, str] = {}
    for settings in plain.values():
        distinct = {repr(setting): setting for setting in settings.values()}
        names = dict(zip(distinct, labels(list(distinct.values()))))
        for key, setting in settings.items():
            found[key] = names[repr(setting)] + (f" #{key.number}" if key.number > 1 else "")
    return found


def _plain(asked: Setting, shown: Words) -> Setting:
    """The setting as labels show it: paths are shortened, and options are left out that are no part of the key."""
    options = {name: value for name, value in asked.options.items() if name in shown}
    given = None if asked.input is None else shown["input"]
    return asked.replace(weights=shown["weights"], input=given, options=options)

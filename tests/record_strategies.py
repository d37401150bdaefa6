"""Hypothesis strategies for records, built from their annotations."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

import modelzoo.records
from modelzoo import setting, warning
from modelzoo.plan import Effort, Plan
from modelzoo.records.timing import Series, Timing
from modelzoo.setting import METHODS, ResolvedSetting, Setting, choices

LARGEST = 3
"""Maximum length of lists and maps: larger ones find nothing more and take long."""
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=5),
    bytes: st.binary(max_size=5),
    type(None): st.none(),
    msgspec.Raw: st.integers(0, 9).map(lambda number: msgspec.Raw(b"%d" % number)),
}


def all_records() -> list[type]:
    """Every dataclass, message and enum that a module of records or of what they are made of defines."""
    names = [f"modelzoo.records.{module.name}" for module in pkgutil.iter_modules(modelzoo.records.__path__)]
    modules = [*map(importlib.import_module, names), setting]
    found = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and is_record(value)
    ]
    return [*found, warning.WarningMessage]


def is_record(kind: type) -> bool:
    """Whether ``kind`` is something that is stored or sent."""
    return dataclasses.is_dataclass(kind) or issubclass(kind, (Enum, msgspec.Struct))


@functools.cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of the annotation ``kind``."""
    if kind in SCALARS:
        return SCALARS[kind]
    if kind in CONSTRAINED:
        return CONSTRAINED[kind]()
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _limited(*parts)
    if origin is Literal:
        return st.sampled_from(parts)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, parts))
    if origin is tuple:
        return _tuples(parts)
    if origin in (dict, Mapping):
        return st.dictionaries(values(parts[0]), values(parts[1]), max_size=LARGEST)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return fields(kind)


def _limited(kind: Any, *marks: Any) -> st.SearchStrategy[Any]:
    limits = next((mark for mark in marks if isinstance(mark, msgspec.Meta)), None)
    if limits is None:
        return values(kind)
    if limits.pattern is not None:
        return st.from_regex(limits.pattern)
    if kind in (int, float):
        low = limits.gt if limits.ge is None else limits.ge
        high = limits.lt if limits.le is None else limits.le
        if kind is int:
            return st.integers(low, 2**64 - 1 if high is None else high)
        is_open = {"exclude_min": limits.gt is not None, "exclude_max": limits.lt is not None}
        return st.floats(low, high, allow_infinity=False, allow_nan=False, **is_open)
    if limits.min_length is None and limits.max_length is None:
        return values(kind)
    least, most = limits.min_length or 0, limits.max_length or LARGEST
    return values(kind).filter(lambda each: least <= len(each) <= most)


def _tuples(parts: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return st.lists(values(parts[0]), max_size=LARGEST).map(tuple)
    return st.tuples(*map(values, parts))


def fields(record: type, **constrained: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Records of a type, whose fields follow their annotations, except ``constrained``."""
    found = {
        name: values(kind)
        for name, kind in get_type_hints(record, include_extras=not issubclass(record, Setting)).items()
        if name not in constrained
    }
    return st.builds(record, **found, **constrained)


COUNTS = st.integers(1, 2**40)
_EXECUTION = {
    "mode": st.sampled_from(choices("mode")),
    "backend": st.sampled_from(choices("backend")),
    "seed": st.integers(0, 2**63 - 1),
    "malloc": st.sampled_from(choices("malloc")),
    "thp": st.sampled_from(choices("thp")),
    "linear": st.sampled_from(choices("linear")),
    "image": st.none(),  # an image excludes another interpreter
    "engine": st.sampled_from(choices("engine")),
    "primitive_cache": st.none() | st.integers(0, 2**31 - 1),
    "stages": st.booleans(),
    "include_copies": st.just(False),  # only accelerators copy
}
_SECONDS = st.floats(0, exclude_min=True, allow_infinity=False)


@st.composite
def _resolved(draw: st.DrawFn) -> ResolvedSetting:
    precision = draw(st.sampled_from(choices("precision")))
    own = METHODS.get(precision)
    methods = {name: st.sampled_from(choices(name)) if name == own else st.none() for name in METHODS.values()}
    given = {"precision": st.just(precision), **methods, "batch": COUNTS, "threads": COUNTS}
    return draw(fields(ResolvedSetting, **given, **_EXECUTION))


def _settings() -> st.SearchStrategy[Setting]:
    return fields(
        Setting,
        precision=st.sampled_from(choices("precision")),
        **{name: st.none() | st.sampled_from(choices(name)) for name in METHODS.values()},
        batch=st.none() | COUNTS,
        threads=st.none() | COUNTS,
        **_EXECUTION,
    )


def _plans() -> st.SearchStrategy[Plan]:
    return fields(
        Plan,
        warmup=st.none() | st.integers(0, 2**40),
        iterations=st.none() | COUNTS,
        max_seconds=st.none() | _SECONDS,
    )


def _efforts() -> st.SearchStrategy[Effort]:
    margin = st.floats(0, 1, exclude_min=True, exclude_max=True)
    return fields(Effort, processes=st.none() | COUNTS, margin=margin, budget=st.none() | _SECONDS)


@st.composite
def _timings(draw: st.DrawFn) -> Timing:
    times = st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=LARGEST).map(tuple)
    watched = draw(fields(Series, values=times))
    others = draw(st.lists(values(Series), max_size=LARGEST))
    series = (watched, *(each for each in others if each.name != watched.name))
    return draw(
        fields(
            Timing, cold_start=st.floats(1e-9, 1e6), warmup=times, series=st.just(series), watched=st.just(watched.name)
        )
    )


CONSTRAINED = {Setting: _settings, ResolvedSetting: _resolved, Plan: _plans, Effort: _efforts, Timing: _timings}
"""Records that refuse some values of their annotations."""

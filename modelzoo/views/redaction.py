"""A result without what it says about people and places.

The fields of records declare which strings stay (``modelzoo.frozen``). Every other one is replaced, equal ones by the
same ``hidden-1``, ``hidden-2`` …. What was measured, and on which hardware and software, stays. Pure, but for
``names_here``.
"""

from __future__ import annotations

import contextlib
import getpass
import itertools
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from modelzoo.comparison.estimate import StoredResult
from modelzoo.comparison.machines import Price
from modelzoo.formatting import launcher_names
from modelzoo.frozen import ARGUMENT, DATA, MESSAGE, PUBLIC, field_names, replace
from modelzoo.plan import Goal
from modelzoo.records.race import Smt
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.records.serving import Scenario
from modelzoo.records.validity import Validity
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import fields, option_name
from modelzoo.views.page import ResultSet
from modelzoo.warning import WarningCode, WarningMessage

T = TypeVar("T")

_COMMANDS = ("modelzoo", "performance.py", "validate.py", "run", "validate", "throughput", "load", "tune", "fleet")
_WORDS = frozenset(
    {
        *(*_COMMANDS, "-", "auto", "default", "none", "on", "off", "pretrained", "random", "base", "large"),
        *("resnet50", "ssd", "maskrcnn", "bert"),
        *(word for name, field in fields().items() for word in (option_name(name), *field.choices)),
        *(each.value for kind in (Scenario, Smt, Goal) for each in kind),
    }
)
"""What a command line may contain without being private; the names of workloads come in addition."""
_HARMLESS = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:%|[muµ]?s|[mh])?"  # 3, 0.5, 1e-3, 3%, 50ms, 2h
    r"|(?:\d+[smh]){2,}|\d+-\d+|p\d+(?:\.\d+)?|cpu|cuda|npu|xpu"  # 1h30m, 0-7, p99.9, devices
    r"|--[a-z][a-z0-9-]*|-[a-z]"  # options
)
_SUFFIXES = {
    *("json", "jsonl", "csv", "txt", "npy", "npz", "pt", "pth", "bin", "safetensors", "onnx", "zip", "gz", "tar"),
    *("jpg", "jpeg", "png", "bmp", "gif", "webp", "tif", "tiff", "svg", "html", "log", "py", "yaml", "yml", "toml"),
}
"""Suffixes that only names of files have."""
_PRIVATE = re.compile(
    r"(?<![\w/.~<])(?:~[\w.-]*|\.{1,2})?/(?=\S)"  # a path from the root, the home or the current directory
    r"|\\"  # a path of Windows
    rf"|[\w.-]\.(?i:{'|'.join(sorted(_SUFFIXES))})(?!\w)"  # a file
    r"|\b(?:[A-Z][A-Z0-9]*_[A-Z0-9_]*|PATH|HOME|USER)="  # a variable with its value
    r"|[\w.+-]@[\w-]"  # a user at a host, or an address of electronic mail
)
"""What a text is hidden for. Where a path ends in it is not known: it may contain blanks and commas."""


def mapped(
    value: T,
    treat: Callable[[str, str], str],
    finish: Callable[[Any, Any], Any] = lambda _, copy: copy,
    *,
    mark: str = "",
    is_built_in: bool = False,
) -> T:
    """Return a copy of ``value`` with every string in it replaced, except public ones. Keys of maps stay.

    Args:
        value: a record, or anything that a field of one may hold.
        treat: returns what takes the place of a string, given its mark.
        finish: is called with each record and its copy, and returns what takes the place of the latter.
        mark: of the field that holds ``value``; empty if it has none.
        is_built_in: whether what it quotes is from a built-in data set.
    """
    source: Any = value
    found: Any = value
    if isinstance(value, Validity):
        is_built_in = value.small

    def inner(each: Any, mark: str) -> Any:
        return mapped(each, treat, finish, mark=mark, is_built_in=is_built_in)

    if isinstance(value, str) and not isinstance(value, Enum):
        is_shown = mark == PUBLIC or (mark == DATA and is_built_in) or not value
        found = value if is_shown else treat(mark, value)
    elif isinstance(value, dict):
        found = {key: inner(each, mark) for key, each in value.items()}
    elif isinstance(value, tuple):
        if not (value and type(value[0]) in (float, int)):  # samples are numbers; there may be millions
            found = tuple(inner(each, mark) for each in value)
    elif names := field_names(value):
        kind: object = type(value)
        marks = _marks(kind)
        if isinstance(value, Weights) and value.kind is not WeightsKind.PATH:
            marks = {**marks, "name": PUBLIC}  # the name of a published checkpoint
        found = finish(source, replace(source, **{name: inner(getattr(source, name), marks[name]) for name in names}))
    return found  # type: ignore[no-any-return]


@cache
def _marks(record: object) -> dict[str, str]:
    """The marks of a record's fields; empty if a field has none, or may hold strings of several."""
    found = {name: _of_strings(hint) for name, hint in get_type_hints(record, include_extras=True).items()}
    return {name: marks.pop() if len(marks) == 1 else "" for name, marks in found.items()}


def _of_strings(hint: Any) -> set[str]:
    """The marks of the strings in an annotation."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return {each for each in marks if isinstance(each, str)} or _of_strings(inner)
    parts = get_args(hint)
    is_map = len(parts) == 2 and parts[0] is str and parts[1] is not Ellipsis and isinstance(get_origin(hint), type)
    return {""} if hint is str else set().union(*map(_of_strings, parts[1:] if is_map else parts))


def anonymous(given: Sequence[ResultSet], prices: Sequence[Price]) -> tuple[list[ResultSet], tuple[Price, ...]]:
    """Return what a page shows of results, and their prices, with numbers for the names."""
    people, names = names_here(), {each.name: f"Result {number}" for number, each in enumerate(given, 1)}
    hidden = iter(redacted_together([stored.result for each in given for stored in each.sessions], people))
    found = []
    for each in given:
        numbers, own = itertools.count(1), [next(hidden) for _ in each.sessions]
        called = [f"session {next(numbers)}" if result.runs else "accuracy check" for result in own]
        found.append(replace(each, name=names[each.name], sessions=tuple(map(StoredResult, called, own))))
    # The source may be the name of a price list.
    return found, tuple(replace(each, name=names.get(each.name, each.name), source="--price") for each in prices)


def redacted(result: Result, people: Sequence[str] = ()) -> Result:
    """Return a copy of ``result`` for readers who may not know whose machine it is.

    Args:
        people: names of users and hosts to remove wherever they are words of their own.
    """
    return redacted_together([result], people)[0]


def redacted_together(results: Sequence[Result], people: Sequence[str] = ()) -> tuple[Result, ...]:
    """Return copies of results likewise; what is equal in two of them stays equal, as comparisons need it."""
    given, words = list[Result](), set[str]()
    for result in results:
        if result.command:  # the program without its directories, if it is the suite's
            name = PurePath(result.command[0]).name
            program = name if name in _COMMANDS else result.command[0]
            result = replace(result, command=(program, *result.command[1:]))
        given.append(result)
        words |= {
            *(entry.workload for entry in result.requested),
            *(name for entry in result.requested for name in entry.setting.options),
            *(each.name for entry in result.validity if entry.report for each in entry.report.validity.checks),
        }
    return redacted_record(tuple(given), people, words)


def redacted_text(text: str, people: Sequence[str] = ()) -> str:
    """Return ``text``, what a command printed for example, without the lines in which something may be private."""
    return _Redactor(people).text(text)


def redacted_record(record: T, people: Sequence[str] = (), words: Iterable[str] = ()) -> T:
    """Return a copy of any record, a report of ``modelzoo doctor`` for example, likewise.

    Args:
        record: what is copied.
        people: names of users and hosts.
        words: what a command line may contain besides the words of the suite.
    """
    redactor = _Redactor(people, words, record)
    return mapped(record, redactor.treated, redactor.finished)


def names_here() -> list[str]:
    """Names of this user and of this host, for ``people``."""
    names = [socket.gethostname(), socket.gethostname().partition(".")[0], os.environ.get("SUDO_USER", "")]
    with contextlib.suppress(OSError, KeyError):  # not every user has a name
        names.append(getpass.getuser())
    return [name for name in names if name not in ("", "root", "localhost")]


class _Redactor:
    """Replaces what is private; equal names get equal substitutes.

    Args:
        people: names of users and hosts.
        words: what a command line may contain besides the words of the suite.
        record: what is to be redacted; texts in it may have the private strings of other fields.
    """

    def __init__(self, people: Iterable[str], words: Iterable[str] = (), record: object = None) -> None:
        self._words = _WORDS.union(words)
        self._seen: dict[str, str] = {}
        self._known: dict[str, str] = {}
        """Private strings, and what may stand for them, with the whole string."""
        self._arguments: list[str] = []
        mapped(record, self._learn)
        for each in self._arguments:  # after all others, so that it is known what a path with commas is
            self._argument(each, self._keep)
        for name in sorted(self._known, key=len, reverse=True):
            for part in _parts(name):
                self._known.setdefault(part, name)
        self._known.update({name: name for name in people if name not in self._known})
        in_texts = [each for each in self._known if len(each) > 2 and re.search(r"[^\W\d]", each)]
        names = "|".join(re.escape(each) for each in in_texts if each.casefold() not in self._words)
        self._names = re.compile(rf"(?<!\w)(?:{names})(?!\w)" if names else r"(?!)")

    def _learn(self, mark: str, text: str) -> str:
        if mark == ARGUMENT:
            self._arguments.append(text)
        elif not mark or (mark == DATA and PurePath(text).suffix[1:].lower() in _SUFFIXES):
            self._keep(text)
        return text

    def _keep(self, text: str) -> str:
        return self._known.setdefault(text, text)

    def treated(self, mark: str, text: str) -> str:
        """What takes the place of a string."""
        if mark == MESSAGE:
            return self.text(text)
        return self._argument(text, self._substitute) if mark == ARGUMENT else self._substitute(text)

    def finished(self, record: Any, copy: Any) -> Any:
        """What takes the place of a record."""
        if isinstance(record, WarningMessage):
            message, hint = (self._template(record, copy, place) for place in (1, 2))
            return replace(copy, message=message, hint=hint)
        if isinstance(record, ValidityEntry) and not (record.report and record.report.validity.small):
            return replace(copy, thumbnails=())
        return copy

    def _template(self, record: WarningMessage, found: WarningMessage, place: int) -> str:
        """The message or the hint: a text of the suite stays, with what fills it in redacted."""
        stored, changed = ((each.message, each.hint)[place - 1] for each in (record, found))
        code = WarningCode.__members__.get(record.code)
        if code is not None:
            template = str(code.value[place])
            with contextlib.suppress(LookupError, ValueError, TypeError, AttributeError):  # of another version
                if stored in (template, template.format(**record.values)):
                    return template if stored == template else template.format(**found.values)
        return changed

    def _argument(self, text: str, substitute: Callable[[str], str]) -> str:
        """Return one argument of a command line, with what is or may be private replaced by ``substitute``."""
        if self._is_harmless(text):
            return text
        if text in self._known:
            return substitute(text)
        assignments = [text]  # there may be several in one argument
        with contextlib.suppress(ValueError):
            assignments = shlex.split(text)
        if len(assignments) > 1 and all("=" in each for each in assignments):
            return " ".join(self._argument(each, substitute) for each in assignments)
        name, sign, value = text.partition("=")
        if sign and self._is_harmless(name):
            return f"{name}={self._argument(value, substitute)}"
        for separator in ",:":
            parts = text.split(separator)
            if len(parts) > 1 and all(self._is_harmless(each) or each in self._known for each in parts):
                return separator.join(self._argument(each, substitute) for each in parts)
        return substitute(text)

    def _is_harmless(self, word: str) -> bool:
        return word in self._words or _HARMLESS.fullmatch(word) is not None

    def text(self, text: str) -> str:
        """Return ``text`` without the lines in which something may be private."""
        return "\n".join(
            self._substitute(line) if _PRIVATE.search(line) or self._names.search(line) else line
            for line in text.split("\n")
        )

    def _substitute(self, text: str) -> str:
        return self._seen.setdefault(self._known.get(text, text), f"hidden-{1 + len(self._seen)}")


def _parts(name: str) -> Iterator[str]:
    """What may stand for a path or an image: its last parts, without the suffix or the tag, and its short name."""
    pure = PurePath(name.replace("\\", "/"))
    yield from ("/".join(pure.parts[-count:]) for count in range(1, len(pure.parts)))
    yield from (pure.stem, pure.stem.removesuffix("_compared"), name.rpartition(":")[0])
    yield from launcher_names((name,)).values()

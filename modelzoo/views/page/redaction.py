"""A result without what it says about people and places.

Removed are: every path, in the command, in errors and in any other text; the values of environment variables; names of
files; names of users and hosts, as far as they can be recognized; pictures of the user's own inputs. Equal paths get
equal substitutes. What was measured, and on which hardware and software, stays. Pure, but for ``names_here``.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

from modelzoo.frozen import field_names, replace
from modelzoo.records.machine import Machine
from modelzoo.records.run import EnvironmentChanges, Result, RunReport, ValidityEntry
from modelzoo.setting import Setting, fields
from modelzoo.warning import WarningCode, WarningMessage

T = TypeVar("T")

HIDDEN = "(hidden)"
_WEIGHTS = ("auto", "pretrained", "random")
"""Values of ``--weights`` that are not names of files."""
_FILE_OPTIONS = ("--json", "--output", "--artifacts", "--data", "--input", "--weights", "-o")
"""Options whose values name files."""
_PATH = re.compile(
    r"(?<![\w/.~<])(?:~[\w.-]*|\.{1,2})?/[^\s'\"<>|,;()\[\]{}]+"  # from the root, the home or the current directory
    r"|\b[A-Za-z]:\\[^\s'\"<>|,;]+|\\\\[^\s'\"]+"  # the same on Windows
)
_FILE = re.compile(r"(?<![\w/.~-])[\w.-]+(?:[/\\][\w.-]+)*\.([A-Za-z][A-Za-z0-9]{0,10})(?!\w)")
"""A name with a suffix, perhaps behind directories."""
_SUFFIXES = {
    *("json", "jsonl", "csv", "txt", "npy", "npz", "pt", "pth", "bin", "safetensors", "onnx", "zip", "gz", "tar"),
    *("jpg", "jpeg", "png", "bmp", "gif", "webp", "tif", "tiff", "svg", "html", "log", "py", "yaml", "yml", "toml"),
}
"""Suffixes that only names of files have."""
_ASSIGNMENT = re.compile(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]*|PATH|HOME|USER)=(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)")
"""A variable with its value."""
_ADDRESS = re.compile(r"\b[\w.+-]+@[\w-]+[\w.-]*")
"""A user at a host, or an address of electronic mail."""


def redacted(result: Result, people: Sequence[str] = ()) -> Result:
    """Return a copy of ``result`` for readers who may not know whose machine it is.

    Args:
        people: names of users and hosts to remove wherever they are words of their own.
    """
    known = {
        *(entry.workload for entry in result.requested),
        *(word for field in fields().values() for word in field.choices),
    }
    names = {*people, *_file_names(result)} - known
    names = {name for name in names if len(name) > 2 and re.search(r"[^\W\d]", name)}
    redactor = _Redactor(names)
    command = tuple(redactor.command(result.command))
    found: Result = redactor.walk(result)
    return replace(found, command=command)


def redacted_text(text: str, people: Sequence[str] = ()) -> str:
    """Return ``text``, what a command printed for example, without paths, values of variables, and ``people``."""
    return _Redactor({name for name in people if len(name) > 2}).text(text)


def redacted_record(record: T, people: Sequence[str] = ()) -> T:
    """Return a copy of any other record, a report of ``modelzoo doctor`` for example, without the same."""
    found: T = _Redactor({name for name in people if len(name) > 2}).walk(record)
    return found


def names_here() -> list[str]:
    """Names of this user and of this host, for ``people``."""
    names = [socket.gethostname(), socket.gethostname().partition(".")[0], os.environ.get("SUDO_USER", "")]
    with contextlib.suppress(OSError, KeyError):  # not every user has a name
        names.append(getpass.getuser())
    return [name for name in names if name not in ("", "root", "localhost")]


class _Redactor:
    """Replaces what it finds; equal names get equal substitutes."""

    def __init__(self, names: Iterable[str]) -> None:
        ordered = sorted(names, key=len, reverse=True)
        self._names = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in ordered)) if ordered else None
        self._seen: dict[str, str] = {}

    def walk(self, value: Any) -> Any:
        """Return a copy of a record, or of a value in one."""
        if isinstance(value, str) and not isinstance(value, Enum):
            return self.text(value)
        if isinstance(value, tuple):
            # Samples are numbers; there may be millions.
            return value if value and isinstance(value[0], (float, int)) else tuple(map(self.walk, value))
        if isinstance(value, dict):
            return {key: self.walk(each) for key, each in value.items()}
        names = field_names(value)
        return self._record(value, names) if names else value

    def _record(self, record: Any, names: Iterable[str]) -> Any:
        if isinstance(record, Setting):
            return self._setting(record)
        changes = {name: self.walk(getattr(record, name)) for name in names}
        if isinstance(record, EnvironmentChanges):
            changes = {name: _without_values(value) for name, value in changes.items()}
        elif isinstance(record, Machine):
            changes["environment"] = _without_values(record.environment)
            changes["image"] = record.image and HIDDEN
        elif isinstance(record, WarningMessage) and _is_the_suites(record):
            changes["hint"] = record.hint
        elif isinstance(record, RunReport):
            changes["items"] = (HIDDEN,) * len(record.items)
        elif isinstance(record, ValidityEntry) and not (record.report and record.report.validity.small):
            changes["thumbnails"] = ()
        return replace(record, **changes)

    def _setting(self, setting: Setting) -> Setting:
        """Its other values come from closed lists."""
        weights = setting.weights if setting.weights in _WEIGHTS else self._substitute(setting.weights)
        given = None if setting.input is None else self._substitute(setting.input)
        return setting.replace(weights=weights, input=given, options=self.walk(setting.options))

    def command(self, arguments: Sequence[str]) -> Iterator[str]:
        """Return a command line. What is or may be a path is hidden as a whole, whatever characters it has."""
        previous = ""
        for number, argument in enumerate(arguments):
            option, sign, value = argument.partition("=")
            if number == 0:
                yield PurePath(argument).name
            elif previous in _FILE_OPTIONS and argument not in _WEIGHTS:
                yield self._substitute(argument)
            elif sign and option in _FILE_OPTIONS and value not in _WEIGHTS:
                yield f"{option}={self._substitute(value)}"
            elif not argument.startswith("-") and not sign and ("/" in argument or "\\" in argument):
                yield self._substitute(argument)
            else:
                yield self.text(argument)
            previous = argument

    def text(self, text: str) -> str:
        """Return ``text`` without names, paths, and values of variables."""
        if self._names is not None:
            text = self._names.sub(lambda match: self._substitute(match.group()), text)
        text = _ASSIGNMENT.sub(rf"\1={HIDDEN}", text)
        text = _ADDRESS.sub(HIDDEN, text)
        text = _PATH.sub(lambda match: self._substitute(match.group()), text)
        return _FILE.sub(self._file, text)

    def _file(self, match: re.Match[str]) -> str:
        return self._substitute(match.group()) if match[1].lower() in _SUFFIXES else match.group()

    def _substitute(self, name: str) -> str:
        return self._seen.setdefault(name, f"PATH-{1 + len(self._seen)}")


def _file_names(result: Result) -> Iterator[str]:
    """The names of the files that the result mentions, with and without directories and suffix."""
    settings = [entry.setting for entry in result.requested]
    paths = [setting.input for setting in settings if setting.input]
    paths += [setting.weights for setting in settings if setting.weights not in _WEIGHTS]
    for entry in result.validity:
        paths += [*entry.files, *(each.name for each in entry.thumbnails)]
    for path in paths:
        pure = PurePath(path.replace("\\", "/"))
        yield from (path, pure.name, pure.stem, pure.stem.removesuffix("_compared"))


def _is_the_suites(warning: WarningMessage) -> bool:
    """Whether the hint is a text of the suite, with nothing filled in: it may name variables with values to set."""
    code = WarningCode.__members__.get(warning.code)
    return code is not None and code.value[2] == warning.hint


def _without_values(variables: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(variables, HIDDEN)

"""A result without what it says about people and places.

``modelzoo.views.page.privacy`` declares what happens to each string. Equal names get equal substitutes. What was
measured, and on which hardware and software, stays. Pure, but for ``names_here``.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Callable, TypeVar

from modelzoo.formatting import launcher_names
from modelzoo.frozen import replace
from modelzoo.records.load import Scenario
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.records.throughput import Smt
from modelzoo.records.tuning import Goal
from modelzoo.setting import fields, option_name
from modelzoo.views.page.privacy import Privacy, mapped, strings
from modelzoo.warning import WarningCode, WarningMessage

T = TypeVar("T")

HIDDEN = Privacy.VALUE.value
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
_REST = r"[^\n]*?(?=: |; |[:.,)\]'\"`]*$)"
"""Where a path ends in a sentence is not known: it may contain blanks and commas."""
_PATH = re.compile(
    rf"(?<![\w/.~<])(?:~[\w.-]*|\.{{1,2}})?/(?=\S){_REST}"  # from the root, the home or the current directory
    rf"|\b[A-Za-z]:\\(?=\S){_REST}|\\\\(?=\S){_REST}",  # the same on Windows
    re.MULTILINE,
)
_QUOTED = re.compile(r"(?<!\w)(['\"`])(?=\S)([^\n]*?)\1(?!\w)")
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
    command = tuple(_program(word) if number == 0 else word for number, word in enumerate(result.command))
    result = replace(result, command=command)
    words = {
        *(entry.workload for entry in result.requested),
        *(name for entry in result.requested for name in entry.setting.options),
        *(each.name for entry in result.validity if entry.report for each in entry.report.validity.checks),
    }
    return _Redactor(people, words, list(strings(result))).record(result)


def redacted_text(text: str, people: Sequence[str] = ()) -> str:
    """Return ``text``, what a command printed for example, without paths, values of variables, and ``people``."""
    return _Redactor(people).text(text)


def redacted_record(record: T, people: Sequence[str] = ()) -> T:
    """Return a copy of any other record, a report of ``modelzoo doctor`` for example, without the same."""
    return _Redactor(people, (), list(strings(record))).record(record)


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
        declared: the strings of a record, which may occur in its texts as well.
    """

    def __init__(
        self, people: Iterable[str], words: Iterable[str] = (), declared: Iterable[tuple[Privacy, str]] = ()
    ) -> None:
        self._words = _WORDS.union(words)
        self._seen: dict[tuple[Privacy, str], str] = {}
        self._known: dict[str, tuple[Privacy, str]] = {}
        for privacy, text in sorted(declared, key=lambda each: (each[0] is Privacy.VALUE, each[0] is Privacy.WORD)):
            self._learn(privacy, text)
        for name in sorted(self._known, key=len, reverse=True):
            for part in _parts(name) if self._known[name][0] in (Privacy.PATH, Privacy.IMAGE) else ():
                self._known.setdefault(part, self._known[name])
        self._known.update({name: (Privacy.NAME, name) for name in people if name not in self._known})
        in_texts = [each for each in self._known if len(each) > 2 and re.search(r"[^\W\d]", each)]
        ordered = sorted((each for each in in_texts if each.casefold() not in self._words), key=len, reverse=True)
        names = "|".join(map(re.escape, ordered))
        self._names = re.compile(rf"(?<!\w)({names})(?!\w)([/\\]{_REST})?", re.MULTILINE) if ordered else None

    def _learn(self, privacy: Privacy, text: str) -> str:
        """Take note of a private string, which texts may contain as well."""
        if privacy is Privacy.WORD:
            self._word(text, lambda piece: self._learn(Privacy.PATH, piece))
        elif privacy is not Privacy.TEXT and text:
            is_known = privacy is not Privacy.OWN_DATA or PurePath(text).suffix[1:].lower() in _SUFFIXES
            self._known.update({text: (privacy, text)} if is_known and text not in self._known else {})
        return text

    def record(self, record: T) -> T:
        """Return a copy of a record."""
        return mapped(record, self._treated, self._finished)

    def _treated(self, privacy: Privacy, text: str) -> str:
        if not text:
            return text
        if privacy is Privacy.TEXT:
            return self.text(text)
        if privacy is Privacy.WORD:
            return self._word(text, self._substitute)
        return self._substitute(text, privacy)

    def _finished(self, record: Any, found: Any) -> Any:
        if isinstance(record, WarningMessage):
            message, hint = (self._template(record, found, place) for place in (1, 2))
            return replace(found, message=message, hint=hint)
        if isinstance(record, ValidityEntry) and not (record.report and record.report.validity.small):
            return replace(found, thumbnails=())
        return found

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

    def _word(self, text: str, substitute: Callable[[str], str]) -> str:
        """Return one argument of a command line, with what is or may be private replaced by ``substitute``."""
        if self._is_harmless(text):
            return text
        if text in self._known:
            return substitute(text)
        assignments = _split(text)
        if len(assignments) > 1 and all("=" in each for each in assignments):
            return " ".join(self._word(each, substitute) for each in assignments)
        name, sign, value = text.partition("=")
        if sign and self._is_harmless(name):
            return f"{name}={self._word(value, substitute)}"
        for separator in ",:":
            parts = text.split(separator)
            if len(parts) > 1 and all(self._is_harmless(each) or each in self._known for each in parts):
                return separator.join(self._word(each, substitute) for each in parts)
        return substitute(text)

    def _is_harmless(self, word: str) -> bool:
        return word in self._words or _HARMLESS.fullmatch(word) is not None

    def text(self, text: str) -> str:
        """Return ``text`` without names, paths, and values of variables."""
        if self._names is not None:
            text = self._names.sub(
                lambda match: self._substitute(match[1] if match[1] in self._known else match[0]), text
            )
        text = _QUOTED.sub(self._quoted, text)
        text = _PATH.sub(lambda match: self._substitute(match.group()), text)
        text = _ASSIGNMENT.sub(rf"\1={HIDDEN}", text)
        text = _ADDRESS.sub(HIDDEN, text)
        return _FILE.sub(lambda match: self._substitute(match.group()) if _is_file(match) else match.group(), text)

    def _quoted(self, match: re.Match[str]) -> str:
        """What is in quotation marks is hidden as a whole if any of it is a path."""
        quote, inside = match.groups()
        is_path = _PATH.search(inside) or "\\" in inside or any(map(_is_file, _FILE.finditer(inside)))
        return f"{quote}{self._substitute(inside)}{quote}" if is_path else str(match.group())

    def _substitute(self, text: str, privacy: Privacy = Privacy.PATH) -> str:
        privacy, whole = self._known.get(text, (privacy, text))
        if privacy is Privacy.VALUE:
            return HIDDEN
        count = sum(kind is privacy for kind, _ in self._seen)
        return self._seen.setdefault((privacy, whole), f"{privacy.value}-{1 + count}")


def _program(argument: str) -> str:
    """The program without its directories, if it is the suite's."""
    name = PurePath(argument).name
    return name if name in _COMMANDS else argument


def _split(text: str) -> list[str]:
    """The words of several assignments in one argument."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _parts(name: str) -> Iterator[str]:
    """What may stand for a path or an image: its last parts, without the suffix or the tag, and its short name."""
    pure = PurePath(name.replace("\\", "/"))
    yield from ("/".join(pure.parts[-count:]) for count in range(1, len(pure.parts)))
    yield from (pure.stem, pure.stem.removesuffix("_compared"), name.rpartition(":")[0])
    yield from launcher_names((name,)).values()


def _is_file(match: re.Match[str]) -> bool:
    return match[1].lower() in _SUFFIXES

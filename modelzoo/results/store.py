"""Results on disk: one JSON file per call, rewritten as a whole after every run.

Whatever happens to the next run, the file on disk is complete. docs/results.md describes the format;
``modelzoo.results.schema`` makes its JSON schema from the records.

Stored results do not reveal who measured them: private names are masked in every string.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import InputError, ModelzooError, UsageError
from modelzoo.files import own_temporary_directory, private_path, write_atomically
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode, encode_json
from modelzoo.records.exhibits import ShownAnswers, ShownClasses, ShownObjects, ShownPassages
from modelzoo.records.fleet import ShardingReport
from modelzoo.records.race import Race, Throughput, Tuning
from modelzoo.records.run import (
    FORMAT,
    FORMAT_VERSION,
    Latency,
    Payload,
    Result,
    Run,
    RunReport,
    SettingRequest,
    ValidityEntry,
)
from modelzoo.records.timing import BETWEEN_TOKENS, FIRST_TOKEN, LATENCY, PER_TOKEN, is_time
from modelzoo.records.validity import Validity
from modelzoo.setting import Setting

_FORMAT = re.compile(r"modelzoo-result/(\d{1,9})(?:\.(\d{1,9}))?")
MAJOR, MINOR = FORMAT_VERSION
_RACES_SINCE = 1
"""The first minor version with today's fields of a race: what ``tune`` and ``throughput`` stored before has others."""
_HINT = "give a file that modelzoo wrote"
_FIGURES = {
    ShownClasses: "flips near_ties",
    ShownObjects: "detection_agreement matched lost new moved",
    ShownAnswers: "em_reference em_tested f1_reference f1_tested identical_answers answer_agreement",
    ShownPassages: "perplexity_reference perplexity_tested ln_perplexity_ratio token_kl token_kl_median token_kl_p99 "
    "token_kl_max same_top",
}
"""The figures that belong to the items which a judgement shows."""


class ResultFile:
    """A result and the file that holds it. Every change is written at once; what cannot be written stays in memory.

    Attributes:
        path: the file; another one if the one that was named cannot be written to any more, see ``keep``.
        result: the latest state.
        is_kept: whether ``path`` holds it.
        problem: why it is not in the file that was named; empty if it is.

    Raises:
        UsageError: the file or its directory cannot be written to.
    """

    def __init__(self, path: Path, result: Result, option: str = "-o") -> None:
        self._named = self.path = path
        self.result, self.is_kept, self.problem = result, True, ""
        write(result, path, option)

    def add(self, entry: Run | ValidityEntry | ShardingReport) -> None:
        """Append a run, a judgement, or how a data set was divided among hosts."""
        self._store(self.result.plus(entry))

    def set_payload(self, payload: Payload) -> None:
        """Set how far the measurement has come."""
        self._store(replace(self.result, payload=payload))

    def group_of(self, workload: str, setting: Setting) -> int:
        """Return the index of what was asked for; if it was not, it is appended."""
        wanted = SettingRequest(workload, setting)
        if wanted not in self.result.requested:
            self._store(replace(self.result, requested=(*self.result.requested, wanted)))
        return self.result.requested.index(wanted)

    def _store(self, result: Result) -> None:
        self.result = result
        place, self.problem = keep(self._named, contents(result))
        self.path, self.is_kept = place or self._named, place is not None


def keep(path: Path, content: bytes) -> tuple[Path | None, str]:
    """Write a file that took long to make: elsewhere if ``path`` cannot be written, because the disk is full, say.

    Returns:
        Where it is: ``path``, or else a file in this user's own directory for temporary files; ``None``: nowhere. And
        why it is not ``path``, empty if it is.
    """
    try:
        write_atomically(path, content)
        return path, ""
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror}"
    try:
        elsewhere = own_temporary_directory() / f"{path.stem}-{os.getpid()}{path.suffix}"
        write_atomically(elsewhere, content)
    except (ModelzooError, OSError):
        return None, problem
    return elsewhere, problem


def contents(result: Result) -> bytes:
    """Return what a file holds: private names in paths are masked, and the version of the format is the latest."""
    return encode_json(mask(encode(replace(result, format=FORMAT), keep_bytes=True))) + b"\n"


def write(result: Result, path: Path, option: str = "-o") -> None:
    """Write ``result`` to ``path`` atomically: a reader sees either the old file or the new one, complete.

    Raises:
        UsageError: the file or its directory cannot be written to; ``option`` names another one.
    """
    content = contents(result)
    with _writing(path, option):
        write_atomically(path, content)


@contextlib.contextmanager
def _writing(path: Path, option: str) -> Iterator[None]:
    """Make the directory of ``path``, and explain why something in the block cannot be written there.

    Raises:
        UsageError: there was an ``OSError``.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:  # no permission, the disk is full, ``path`` is a directory …
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with {option} FILE") from error


def reserve(
    path: Path, make: Callable[[Path], None] = lambda path: path.touch(exist_ok=False), option: str = "-o"
) -> Path:
    """Make ``path``, or the first of ``NAME-1``, ``NAME-2`` … that does not exist, and return it: no other call has it.

    Args:
        path: an empty file is made, and its directory.
        make: what makes something else; ``FileExistsError`` says that there is such a file.

    Raises:
        UsageError: its directory cannot be written to; ``option`` names another file.
    """
    candidate, number = path, 0
    with _writing(path, option):
        while True:
            try:
                make(candidate)
                break
            except FileExistsError:
                number += 1
                candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def read(path: Path) -> Result:
    """Read a stored result; fields of a newer minor version are ignored.

    Raises:
        InputError: the file cannot be read, is damaged, or is of another format.
    """
    data = _parse(path)
    stored = data.get("format", data.get("schema"))  # the first format had another name for it
    match = _FORMAT.fullmatch(stored) if isinstance(stored, str) else None
    if match is None:
        raise InputError(f"{path} is not a result of modelzoo; {_HINT}")
    major, minor = int(match[1]), int(match[2] or 0)
    if major > MAJOR:
        raise InputError(f"{path} has format {major}, newer than this suite's {MAJOR}; update modelzoo to read it")
    if major < MAJOR:
        reader = ", or use release 0.1" if major == 3 else ""
        raise InputError(f"{path} has format {major}, older than this suite's {MAJOR}; measure again{reader}")
    payload = data.get("payload")
    if minor < _RACES_SINCE and isinstance(payload, dict) and payload.get("type") in ("tuning", "throughput"):
        raise InputError(f"{path} has format {major}.{minor}, older than this suite's {MAJOR}.{MINOR}; measure again")
    if "version" not in data:
        raise InputError(f"{path} does not say which version of modelzoo wrote it; {_HINT}")
    try:
        _check_numbers(data)
        result = decode(Result, data)
        _check(result)
    except (msgspec.MsgspecError, ModelzooError, LookupError, TypeError, ValueError, AttributeError) as error:
        if (major, minor) > (MAJOR, MINOR):
            raise InputError(
                f"{path} has format {major}.{minor}, newer than this suite's {MAJOR}.{MINOR}, and cannot be read as "
                f"such ({_one_line(error)}); update modelzoo"
            ) from error
        raise InputError(f"{path} is damaged ({_one_line(error)}); {_HINT}") from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply to be a result of modelzoo; {_HINT}") from error
    return result


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # the name contains a null character
        raise InputError(f"cannot read {path}: {error}") from error
    try:
        data = msgspec.json.decode(content)
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply to be a result of modelzoo; {_HINT}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{path} is not JSON ({_one_line(error)}); {_HINT}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} is not a result of modelzoo; {_HINT}")
    return data


def _check(result: Result) -> None:
    """Check what types cannot express and what reading code relies on.

    Raises:
        ValueError: something contradicts itself.
    """
    members = [(entry.workload, entry.group) for entry in result.runs]
    members += [(entry.workload, entry.group) for entry in result.validity]
    for workload, group in members:
        if not 0 <= group < len(result.requested):
            raise ValueError(f"{workload} belongs to group {group}, and there are {len(result.requested)}")
        if workload != result.requested[group].workload:
            raise ValueError(f"{workload} belongs to group {group}, which is of {result.requested[group].workload}")
    for run in result.runs:
        if run.report is not None:
            _check_report(run.report)
    for entry in result.validity:
        if entry.report is not None:
            _check_validity(entry.report.validity)
    _check_payload(result.payload, len(result.requested))


def _check_payload(found: Payload, settings: int) -> None:
    """Raises ``ValueError`` if what only one kind of call measures contradicts itself, or the settings asked for."""
    groups: list[int] = []
    entrants: list[int] = []
    if isinstance(found, Race):
        entrants = [each for stage in found.stages for each in stage.entrants]
        entrants += [each.entrant for each in found.excluded]
        entrants += [found.choice.winner, found.choice.best, *found.choice.ties] if found.choice is not None else []
    if isinstance(found, Latency):
        for design in found.designs:
            if any(a >= b for a, b in zip((0, *design.looks), (*design.looks, (design.maximum or math.inf) + 1))):
                raise ValueError(f"the looks of {design.workload} do not ascend from 1 to their maximum")
    elif isinstance(found, Tuning):
        groups = [*entrants, found.candidates - 1, *(found.choice.steps if found.choice is not None else ())]
    elif isinstance(found, Throughput):
        groups = [each.group for each in found.configurations]
        named = [*entrants, *(run.configuration for run in found.runs)]
        if not all(0 <= index < len(found.configurations) for index in named):
            raise ValueError("a round names a configuration that does not exist")
        if any(len(run.instances) > len(found.configurations[run.configuration].places) for run in found.runs):
            raise ValueError("a round has more instances than its configuration")
    if not all(0 <= group < settings for group in groups):
        raise ValueError(f"it names a setting that is none of the {settings} that were asked for")


def _check_report(report: RunReport) -> None:
    """Raises ``ValueError`` if a stage or a token has no time."""
    timing = report.timing
    if timing is not None and report.pipeline is not None:
        timed = {series.name for series in timing.series if series.values}
        stages = {stage.name for stage in report.pipeline}
        if not {LATENCY, *stages} <= timed:
            raise ValueError(f"{report.workload} has a stage that was not timed")
        if not stages:
            raise ValueError(f"{report.workload} has a pipeline without stages")
    if timing is not None and report.generation is not None:
        tokens, calls = report.generation.new_tokens, len(timing.steady)
        for name, count in ((FIRST_TOKEN, calls), (PER_TOKEN, calls), (BETWEEN_TOKENS, calls * (tokens - 1))):
            if len(timing.values(name)) != count or not all(map(is_time, timing.values(name))):
                raise ValueError(f"{report.workload} has tokens without a time, or with one that is not possible")


def _check_validity(judged: Validity) -> None:
    """Raises ``ValueError`` if items are shown without the figures and names that belong to them."""
    required = next((names for kind, names in _FIGURES.items() if isinstance(judged.shown, kind)), "").split()
    missing = [name for name in required if name not in judged.figures]
    if missing:
        raise ValueError(f"the judgement of {judged.workload} has no figure {missing[0]}")
    layers = judged.layers
    if layers is not None and layers.suspect is not None and not 0 <= layers.suspect < len(layers.layers):
        raise ValueError(f"the judgement of {judged.workload} suspects a layer that it does not have")
    if isinstance(judged.shown, ShownClasses):
        tops = [top for each in judged.shown.changed for top in (each.reference, each.tested)]
        tops += [top for each in judged.shown.first for top in (each.reference, each.tested)]
        named = set(judged.shown.indices[: len(judged.shown.names)])
        if not all(named.issuperset(top.classes) and len(top.classes) <= len(top.probabilities) for top in tops):
            raise ValueError(f"the judgement of {judged.workload} has a class without a name or a probability")
        if not all(top.classes or not top.finite for top in tops):
            raise ValueError(f"the judgement of {judged.workload} has an image without a class")


def _check_numbers(data: Any) -> None:
    """Reject integers that other JSON libraries may not read and that no record needs.

    Raises:
        ValueError: there is one.
    """
    if isinstance(data, int) and not -(2**63) <= data < 2**64:
        raise ValueError("an integer has more than 64 bits")
    if isinstance(data, (dict, list)):
        for value in data.values() if isinstance(data, dict) else data:
            _check_numbers(value)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "…"


def mask(data: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Return a copy of JSON data with home directories and user names masked in every string.

    Keys and bytes stay as they are.

    Args:
        data: dicts, lists, tuples, strings, bytes and numbers.
        environ: the variables that give the home directory and the user's name; see ``private_path``.
    """
    if isinstance(data, dict):
        return {key: mask(value, environ) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [mask(value, environ) for value in data]
    # Most strings contain no path.
    if isinstance(data, str) and ("/" in data or "\\" in data):
        return private_path(data, environ)
    return data

"""Results of strangers: whatever they hold, they are shown as text or refused in one line."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from calls import called
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from printed import read_page
from record_strategies import values
from shown_documents import EXAMPLES

from modelzoo.errors import UsageError
from modelzoo.frozen import field_names, replace
from modelzoo.records.codec import encode_json
from modelzoo.records.equipment import AcceleratorUse
from modelzoo.records.evidence import Evidence
from modelzoo.records.exhibits import ExplainedLayers, ShownAnswers, ShownClasses, ShownObjects
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.profile import Bound, Ceilings, Flops, Profile
from modelzoo.records.race import InstanceRun, Throughput, Tuning
from modelzoo.records.run import Result
from modelzoo.records.run_report import Observed, Provenance
from modelzoo.records.serving import Load, LoadRun
from modelzoo.records.timing import Design, Timing
from modelzoo.records.validity import Check, ClassLosses, MetricChange, Reason, Validity
from modelzoo.records.workload import OutputAgreement
from modelzoo.setting import Setting, fields
from modelzoo.warning import WarningMessage

some = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FORGED = "[TARGET] resnet50 Time 0.0001"
STRINGS = (
    f"x\n{FORGED}",
    f"{'long ' * 30}\r{FORGED}\n[VALID] resnet50 top1 1 1 VALID",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "[/x][bold red]no[/] [link=file:///]",
    "<script>alert(1)</script>\"' onload=x &amp;",
    "=1+cmd|' /C calc'!A0",
    "@SUM(A1)\t|--|\n|a|",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "$\\frac{1}$ ${x} {0} {x.y} %s %(x)d",
    "\x00\x7f\u2028\u2029\x85",
    "\ud800 lone",
    "",
    "/",
    "é" * 300,
    FORGED,
)
NUMBERS = (0, -1, 1, 2**63 - 1, -(2**63), 1e-300, 1e300, -1e300, 1e15, 5e-324, float("nan"), float("inf"))
UNSHOWN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What no output may contain: control characters, and those that change the direction of text."""
FORMULAS = ("=", "+", "-", "@")
REPORTS = ((), ("--details",), *(("--format", form) for form in ("markdown", "csv", "json")))
SHOWN = (*(("report", *form) for form in REPORTS), *(("compare", *form) for form in (*REPORTS, ("--format", "junit"))))
"""Commands that show results, with their formats but the page."""
RECORDS = (
    *(AcceleratorUse, Bound, Ceilings, Check, ClassLosses, CpuUsage, Design, Evidence, ExplainedLayers, Flops),
    *(InstanceRun, Load, LoadRun, Machine, MetricChange, Observed, OutputAgreement, Profile),
    *(Provenance, Reason, ShownAnswers, ShownClasses, ShownObjects, Throughput, Timing, Tuning),
    *(Validity, WarningMessage),
)
"""Parts of results that are drawn whole."""


@functools.cache
def closed(kind: type) -> set[str]:
    """The fields of a record that hold a word of a closed list."""
    hints = get_type_hints(kind)
    return {name for name, hint in hints.items() if Literal in {get_origin(each) for each in (hint, *get_args(hint))}}


def with_strings(record: Any, chosen: Callable[[str], str], *, keys: bool = True) -> Any:
    """A copy of ``record`` in which ``chosen`` has replaced every string that is not of a closed list."""

    def changed(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return chosen(value)
        if isinstance(value, tuple):
            is_numbers = value and isinstance(value[0], (int, float)) and not isinstance(value[0], Enum)
            return value if is_numbers else tuple(map(changed, value))
        if isinstance(value, dict):
            return {chosen(key) if keys and isinstance(key, str) else key: changed(each) for key, each in value.items()}
        names = field_names(value)
        if not names:
            return value
        kept = closed(type(value)) | ({"format"} if isinstance(value, Result) else set())
        if isinstance(value, Setting):
            kept |= {name for name, declared in fields().items() if declared.choices or name == "device"}
        return replace(value, **{name: changed(getattr(value, name)) for name in names if name not in kept})

    return changed(record)


def numbers(record: Any, found: dict[tuple[type, str], None] | None = None) -> dict[tuple[type, str], None]:
    """Every field of every record in ``record`` that holds numbers."""
    found = {} if found is None else found
    if isinstance(record, tuple):
        for each in record:
            numbers(each, found)
    for name in field_names(record):
        value = getattr(record, name)
        values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        if any(isinstance(each, (int, float)) and not isinstance(each, (bool, Enum)) for each in values):
            found[type(record), name] = None
        numbers(tuple(values), found)
    return found


def with_number(record: Any, kind: type, field: str, number: float) -> Any:
    """A copy of ``record`` with ``number`` in the field of every record of the type."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            is_numbers = value and isinstance(value[0], (int, float)) and not isinstance(value[0], Enum)
            return value if is_numbers else tuple(map(changed, value))
        if isinstance(value, dict):
            return value
        changes = {name: changed(getattr(value, name)) for name in field_names(value)}
        if type(value) is kind:
            old = changes[field]
            if isinstance(old, tuple):
                changes[field] = (number, *old[1:])
            elif isinstance(old, dict):
                changes[field] = dict.fromkeys(old, number)
            elif old is not None:
                changes[field] = number
        return replace(value, **changes) if changes else value

    return changed(record)


def with_record(record: Any, kind: type, new: Any) -> Any:
    """A copy of ``record`` with ``new`` in every field that may hold a record of its kind."""
    names = field_names(record)
    if isinstance(record, tuple) and not (record and isinstance(record[0], (int, float))):
        return tuple(with_record(each, kind, new) for each in record)
    if not names or isinstance(record, Setting):
        return record
    hints, changes = get_type_hints(type(record)), {}
    for name in names:
        within = (
            hints[name],
            *get_args(hints[name]),
            *(part for each in get_args(hints[name]) for part in get_args(each)),
        )
        own = (new,) if get_origin(hints[name]) is tuple else new
        changes[name] = own if kind in within else with_record(getattr(record, name), kind, new)
    return replace(record, **changes)


def stored(result: Result, path: Path) -> Path:
    """Write the result as it is; what JSON cannot hold is written as it can."""
    path.write_bytes(encode_json(result))
    return path


def flaws(text: str) -> Iterator[str]:
    """What is wrong with an output."""
    yield from (f"unshown: {match.group()!r}" for match in UNSHOWN.finditer(text))
    for line in text.split("\n"):
        if line.startswith(("[TARGET]", "[VALID]")):
            form = r"\[TARGET\] \S+ Time [\d.]+|\[VALID\] \S+ \S+ \S+ \S+ (VALID|NOT VALID|[A-Z ]+)( \(.*\))?"
            if line.startswith(FORGED) or not re.fullmatch(form, line):
                yield f"forged: {line}"


def texts(given: Sequence[str]) -> Callable[[str], str]:
    """What takes the place of a string: the same for equal ones, so that names still refer to each other."""
    return lambda text: given[zlib.crc32(text.encode("utf-8", "replace")) % len(given)] + text


def check_formats(result: Result, directory: Path, shown: Sequence[tuple[str, ...]] = SHOWN) -> list[int]:
    """Show ``result``, for a comparison beside a later one; returns the exit codes."""
    path = stored(result, directory / "r.json")
    later = stored(replace(result, created=f"{result.created} "), directory / "later.json")
    both = {"report": (path,), "compare": (path, later)}
    return [check(command, *both[command], *form) for command, *form in shown]


def check(*arguments: object) -> int:
    """Run a command; nothing that it writes is a control character, a forged line or a formula."""
    code, out, err = called(*arguments)
    assert code in (0, 1, 2)
    assert [*flaws(out), *flaws(err)] == []
    if code == 2:
        assert err.startswith("modelzoo: error: ")
        assert err.count("\n") == 1
    elif "csv" in arguments:
        for cell in (cell for row in csv.reader(io.StringIO(out)) for cell in row):
            assert not cell.startswith(FORMULAS) or is_number(cell)
    elif "json" in arguments:
        json.loads(out)
    return code


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@some
@given(
    name=st.sampled_from(list(EXAMPLES)),
    shown=st.sampled_from(SHOWN),
    given=st.lists(st.sampled_from(STRINGS) | st.text(max_size=8), min_size=1, max_size=4),
)
def test_no_string_of_a_result_is_more_than_text(
    name: str, shown: tuple[str, ...], given: list[str], tmp_path: Path
) -> None:
    """In every field at once: names of workloads, times, versions, errors, warnings, kernels, keys of maps."""
    check_formats(with_strings(EXAMPLES[name], texts(given)), tmp_path, [shown])


@pytest.mark.parametrize("name", ["mlp", "several", "tune", "throughput", "load"])
def test_a_hostile_result_is_shown_and_not_merely_refused(name: str, tmp_path: Path) -> None:
    """With names that forge lines; what is compared is comparable."""
    codes = check_formats(with_strings(EXAMPLES[name], lambda text: f"x\n{FORGED}\x1b[31m[/x]{text}"), tmp_path)
    assert codes[:3] == [0, 0, 0]


@some
@given(data=st.data())
def test_no_number_of_a_result_ends_in_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    """Zero, negative, huge, tiny or not a number: it is shown, or the file is refused as damaged."""
    result, shown = EXAMPLES[data.draw(st.sampled_from(list(EXAMPLES)))], data.draw(st.sampled_from(SHOWN))
    kind, field = data.draw(st.sampled_from(list(numbers(result))))
    try:
        hostile = with_number(result, kind, field, data.draw(st.sampled_from(NUMBERS)))
    except (ValueError, TypeError, UsageError):  # the record itself refuses it
        return
    check_formats(hostile, tmp_path, [shown])


@some
@given(data=st.data())
def test_no_record_of_a_result_ends_in_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    """Every field of some record is drawn, and the record is put wherever there is one of its kind."""
    result, shown = EXAMPLES[data.draw(st.sampled_from(list(EXAMPLES)))], data.draw(st.sampled_from(SHOWN))
    kind = data.draw(st.sampled_from(RECORDS))
    try:
        hostile = with_record(result, kind, data.draw(values(kind)))
    except (ValueError, UsageError):
        return
    check_formats(hostile, tmp_path, [shown])


def test_a_suspect_among_no_layers_is_one_line(tmp_path: Path) -> None:
    """What the test above drew."""
    hostile = with_record(EXAMPLES["bert"], ExplainedLayers, ExplainedLayers(layers=(), suspect=0))
    check_formats(hostile, tmp_path, [("report",)])


@pytest.mark.parametrize("name", ["mlp", "tune", "throughput", "load", "bert"])
def test_nothing_in_a_page_is_markup(name: str, tmp_path: Path) -> None:
    """Names are text: nothing runs, nothing is fetched, and matplotlib takes no label for a formula."""
    text = "\x1b[31m<script>alert(1)</script><img src=x onerror=y>\"' onload=x $\\frac{1}$ {x.y} %s\u202e"
    path = stored(with_strings(EXAMPLES[name], text.__add__, keys=False), tmp_path / "r.json")
    assert check("report", path, "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert list(flaws(page)) == []
    for element in read_page(page).all():
        assert element.tag != "script"
        for name, value in element.attributes.items():
            is_foreign = name in ("src", "href") and not value.startswith(("data:", "#"))
            assert not is_foreign and not name.startswith("on"), f"{element.tag} {name}={value}"

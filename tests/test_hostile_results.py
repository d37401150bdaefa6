"""Results of strangers: whatever they hold, they are shown as text or refused in one line."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from calls import called
from example_results import EXAMPLES
from hostile import FORGED, NUMBERS, STRINGS, flaws, numbers, stored, with_number, with_record, with_strings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_strategies import values

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
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
from modelzoo.warning import WarningMessage

some = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


class Reader(html.parser.HTMLParser):
    """Collects what a page has that could run, or fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        is_foreign = any(name in ("src", "href") and not str(value).startswith(("data:", "#")) for name, value in attrs)
        if tag == "script" or is_foreign or any(name.startswith("on") for name, _ in attrs):
            self.found.append(f"{tag} {attrs}")


@pytest.mark.parametrize("name", ["mlp", "tune", "throughput", "load", "bert"])
def test_nothing_in_a_page_is_markup(name: str, tmp_path: Path) -> None:
    """Names are text: nothing runs, nothing is fetched, and matplotlib takes no label for a formula."""
    text = "\x1b[31m<script>alert(1)</script><img src=x onerror=y>\"' onload=x $\\frac{1}$ {x.y} %s\u202e"
    path = stored(with_strings(EXAMPLES[name], text.__add__, keys=False), tmp_path / "r.json")
    assert check("report", path, "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert list(flaws(page)) == []
    reader = Reader()
    reader.feed(page)
    assert reader.found == []

"""What a page shows of a judgement."""

from __future__ import annotations

import base64

from places import DATA
from printed import printed

from modelzoo.document import Details, Pictures, Table
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Thumbnail, ValidityEntry
from modelzoo.records.validity import ClassChange, ClassLosses, MetricChange
from modelzoo.results import store
from modelzoo.views import validity
from modelzoo.views.judgement import verdict
from modelzoo.views.page import workloads


def ssdlite() -> Result:
    """A judgement of a detector with three pictures."""
    return store.read(DATA / "results" / "ssdlite.json")


def test_verdict_checks_tables_and_pictures_are_shown() -> None:
    """In this order; pictures as they are stored."""
    [entry] = ssdlite().validity
    found = workloads.predictions(entry, "bf16", 8)
    assert entry.report is not None
    judged = entry.report.validity
    assert found[0] == verdict(replace(judged, tested_name="bf16"))
    assert any(isinstance(block, Table) and block.caption == "Checks" for block in found)
    shown = {block.summary for block in found if isinstance(block, Details)}
    assert {table.caption for table in validity.tables(judged)} <= shown
    [pictures] = [block for block in found if isinstance(block, Pictures)]
    assert [base64.b64decode(each.jpeg) for each in pictures.items] == [each.jpeg for each in entry.thumbnails]


def test_changes_and_classes_are_shown_once() -> None:
    """In points, as in the terminal."""
    [entry] = ssdlite().validity
    assert entry.report is not None
    change = MetricChange("top1", 0.8, 0.79, -0.03, 0.01, 0.02, 0.03, 500, worse=7, better=2, p_value=0.18)
    lost = ClassLosses((ClassChange("cat", 30, 0.9, 0.5, 0.0004, True),), 10, 8, 5, 0.1, 0.01)
    judged = replace(entry.report.validity, changes=(change,), classes=lost)
    entry = replace(entry, report=replace(entry.report, validity=judged))
    blocks = workloads.predictions(entry, "bf16", 0)
    inner = [each for block in blocks for each in (block.blocks if isinstance(block, Details) else (block,))]
    rows = [row for each in inner if isinstance(each, Table) for row in each.rows if {"top-1 accuracy", "cat"} & {*row}]
    assert [(row[0], row[1 if row[0] == "top-1 accuracy" else 4]) for row in rows] == [
        ("cat", "-40.0"),
        ("top-1 accuracy", "-1.0 [-3.0, +1.0]"),
    ]


def test_what_could_not_be_judged_says_why() -> None:
    """Without a report there is only the reason."""
    entry = replace(ssdlite().validity[0], report=None, error="no data")
    assert printed(workloads.predictions(entry, "bf16", 8)) == "failed: ssdlite bf16: no data\n"


def test_pictures_are_limited_for_the_whole_page() -> None:
    """The same number for each judgement, so that all together stay within the limit."""
    result = ssdlite()
    picture = Thumbnail("a.jpg", b"x" * 20_000)
    entry: ValidityEntry = replace(result.validity[0], thumbnails=(picture,) * 8)
    many = replace(result, validity=(entry,) * 8)
    assert workloads.pictures_each([result]) == 3
    most = workloads.pictures_each([many])
    assert 8 * most * 20_000 <= workloads.PICTURE_BYTES < 8 * (most + 1) * 20_000
    [pictures] = [each for each in workloads.predictions(entry, "bf16", most) if isinstance(each, Pictures)]
    assert pictures.caption.startswith(f"{most} of 8 stored images")
    assert workloads.pictures_each([]) == 0

"""What a page shows of a judgement."""

from __future__ import annotations

import base64

from places import DATA
from printed import printed

from modelzoo.document import Details, Pictures
from modelzoo.frozen import replace
from modelzoo.records.run import Thumbnail
from modelzoo.results import store
from modelzoo.views import validity
from modelzoo.views.judgement import check_table, verdict
from modelzoo.views.page import workloads

RESULT = store.read(DATA / "results" / "ssdlite.json")
(ENTRY,) = RESULT.validity
"""A judgement of a detector with three pictures."""


def test_verdict_checks_tables_and_pictures_are_shown() -> None:
    """In this order; pictures as they are stored, and files by their names."""
    judged = replace(ENTRY.report.validity, tested_name="bf16")
    first, checks, *tables, pictures, files = workloads.predictions(ENTRY, "bf16", 8)
    assert (first, checks) == (verdict(judged), check_table(judged))
    assert tables == [Details(each.caption, [each]) for each in validity.tables(judged)]
    assert isinstance(pictures, Pictures)
    assert [base64.b64decode(each.jpeg) for each in pictures.items] == [each.jpeg for each in ENTRY.thumbnails]
    assert files.summary == f"{len(ENTRY.files)} files were written"


def test_what_could_not_be_judged_says_why() -> None:
    """Without a report there is only the reason."""
    failed = replace(ENTRY, report=None, error="no data")
    assert printed(workloads.predictions(failed, "bf16", 8)) == "failed: ssdlite bf16: no data\n"


def test_pictures_are_limited_for_the_whole_page() -> None:
    """The same number for each judgement, so that all together stay within the limit."""
    entry = replace(ENTRY, thumbnails=(Thumbnail("a.jpg", b"x" * 20_000),) * 8)
    most = workloads.pictures_each([replace(RESULT, validity=(entry,) * 8)])
    assert 8 * most * 20_000 <= workloads.PICTURE_BYTES < 8 * (most + 1) * 20_000
    [pictures] = [each for each in workloads.predictions(entry, "bf16", most) if isinstance(each, Pictures)]
    assert pictures.caption.startswith(f"{most} of 8 stored images")
    assert (workloads.pictures_each([RESULT]), workloads.pictures_each([])) == (3, 0)

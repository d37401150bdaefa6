"""What a page shows of a judgement."""

from __future__ import annotations

import base64

from places import DATA

from modelzoo.document import Details, Lines, Pictures, Table
from modelzoo.frozen import replace
from modelzoo.records.run import Thumbnail
from modelzoo.results import store
from modelzoo.views.page import workloads

RESULT = store.read(DATA / "results" / "ssdlite.json")
(ENTRY,) = RESULT.validity
"""A judgement of a detector with three pictures."""


def test_verdict_checks_tables_pictures_and_files_are_shown() -> None:
    """In this order; pictures as they are stored, and files by their number."""
    *_, pictures, files = found = workloads.predictions(ENTRY, "bf16", 8)
    assert [type(each) for each in found[:3]] == [Lines, Table, Details]
    assert isinstance(pictures, Pictures)
    assert [base64.b64decode(each.jpeg) for each in pictures.items] == [each.jpeg for each in ENTRY.thumbnails]
    assert files.summary == f"{len(ENTRY.files)} files were written"


def test_pictures_are_limited_for_the_whole_page() -> None:
    """The same number for each judgement, so that all together stay within the limit."""
    entry = replace(ENTRY, thumbnails=(Thumbnail("a.jpg", b"x" * 20_000),) * 8)
    most = workloads.pictures_each([replace(RESULT, validity=(entry,) * 8)])
    assert 8 * most * 20_000 <= workloads.PICTURE_BYTES < 8 * (most + 1) * 20_000
    [pictures] = [each for each in workloads.predictions(entry, "bf16", most) if isinstance(each, Pictures)]
    assert pictures.caption.startswith(f"{most} of 8 stored images")
    assert (workloads.pictures_each([RESULT]), workloads.pictures_each([])) == (3, 0)

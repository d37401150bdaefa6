"""The figures and pictures of docs/timing.md are those that its command makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import timing_pictures
from places import ROOT

PAGE = (ROOT / "docs" / "timing.md").read_text()
PASSES = {
    "events, read at the end": {"by_events": True},
    "a synchronization after each stage": {"by_events": True, "synchronized": True},
    "the host's clock, without events": {"by_events": False},
}


@pytest.mark.parametrize("title", PASSES)
def test_the_table_of_stages_is_what_the_simulated_device_gives(title: str) -> None:
    """End-to-end time, stages and sum, in milliseconds."""
    found = timing_pictures.timed_pass(**PASSES[title])
    (row,) = re.findall(rf"\| {re.escape(title)} \| (.*) \|", PAGE)
    shown = [int(cell.strip().removesuffix(" ms")) for cell in row.split("|")]
    expected = [found.milliseconds, *found.stages.values(), sum(found.stages.values())]
    assert shown == [round(value) for value in expected]


def test_the_spans_are_those_that_the_page_names() -> None:
    """5 ms to issue, 21 ms until it is done."""
    _, sample = timing_pictures.spans_of_a_call()
    assert f"it is {1e3 * sample['issue']:.0f} ms, and the call takes {1e3 * sample['latency']:.0f} ms" in PAGE


def test_the_pictures_of_the_simulated_device_are_current(tmp_path: Path) -> None:
    """If this fails, run the command of the page."""
    timing_pictures.main(["--output", str(tmp_path)])
    for name in ("spans.svg", "stages.svg"):
        assert (tmp_path / name).read_text() == (ROOT / "docs" / "pictures" / name).read_text()

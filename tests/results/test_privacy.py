"""Private names are masked in every string of stored data, and nothing else changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelzoo.results.store import mask

ALICE = {"HOME": "/home/alice", "USER": "alice"}


def test_strings_are_masked_wherever_they_are() -> None:
    """In lists, maps and in the middle of sentences; keys and bytes stay."""
    data = {
        "command": ["/home/alice/run", "--json", "/tmp/alice/r.json"],
        "report": {"error": "cannot read /home/alice/x.pth: no such file", "path": {"/home/alice": "/home/alice"}},
        "jpeg": b"\xff/home/alice",
        "numbers": [1, 2.5, None, True],
        "name": "alice",
    }
    assert mask(data, ALICE) == {
        "command": ["~/run", "--json", "/tmp/USER/r.json"],
        "report": {"error": "cannot read ~/x.pth: no such file", "path": {"/home/alice": "~"}},
        "jpeg": b"\xff/home/alice",
        "numbers": [1, 2.5, None, True],
        "name": "alice",
    }


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="/\\", exclude_categories=("Cs",)))))
def test_text_without_paths_stays(texts: list[str]) -> None:
    """Any language, any symbol."""
    assert mask(texts, ALICE) == texts


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    """A result that is read and stored again stays the same."""
    once = mask([text], ALICE)
    assert mask(once, ALICE) == once

"""Results as a page takes them."""

from __future__ import annotations

from modelzoo.comparison.compare import Question
from modelzoo.comparison.estimate import StoredResult
from modelzoo.document import Page
from modelzoo.records.run import Result
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet


def given(name: str, *results: Result, is_directory: bool = False) -> ResultSet:
    """Results as the user named them."""
    sessions = tuple(StoredResult(f"{name}/{number}.json", each) for number, each in enumerate(results, 1))
    return ResultSet(name, sessions, is_directory)


def page_of(*results: Result) -> Page:
    """A page of results, each in a file of its own."""
    return build.page([given(f"r{number}", each) for number, each in enumerate(results)], Question())

"""Where results are stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.cli import output
from modelzoo.workload import discovery

CREATED = "2026-01-02T03:04:05+0000"


def test_a_result_has_the_name_that_was_given(tmp_path: Path) -> None:
    """``--json FILE`` is taken as it is."""
    assert output.result_path(str(tmp_path / "mine.json"), CREATED) == tmp_path / "mine.json"


def test_a_result_without_a_name_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls in one second have two files."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    first = output.result_path(None, CREATED)
    first.write_text("{}")
    second = output.result_path(None, CREATED)
    assert first.parent == second.parent == tmp_path
    assert (first.name, second.name) == ("2026-01-02T030405Z.json", "2026-01-02T030405Z-1.json")


def test_results_are_stored_in_the_checkout_or_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package has no checkout, and site-packages is no place for results."""
    monkeypatch.delenv("MODELZOO_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert output.result_path(None, CREATED).parent == discovery.CHECKOUT / "results"
    monkeypatch.setattr(discovery, "CHECKOUT", tmp_path / "site-packages")
    monkeypatch.setattr(output, "CHECKOUT", tmp_path / "site-packages")
    assert output.result_path(None, CREATED).parent == tmp_path / "results"

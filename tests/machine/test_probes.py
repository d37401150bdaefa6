"""Experiments that find problems of this installation."""

from __future__ import annotations

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import diagnosis


def test_a_torchvision_that_does_not_load_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of one release from two indexes have matching versions; only loading them shows the problem."""
    assert diagnosis.probe_torchvision() is None

    def fails() -> None:
        raise EnvironmentProblem("built for another torch")

    monkeypatch.setattr(diagnosis, "import_torchvision", fails)
    assert diagnosis.probe_torchvision() == "built for another torch"


def test_page_faults_of_this_machine() -> None:
    """There is at most one fault per page, and some slack for other allocations."""
    faults = diagnosis.probe_page_faults(mib=8, rounds=2)
    assert faults is not None
    assert 0 <= faults < 300

"""What a machine lacks of what a search may try."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_machine import SERVER

from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import huge_pages
from modelzoo.setting import Setting
from modelzoo.tuning import conditions


def refuse(*args: object) -> Path:
    """What a machine without tcmalloc says."""
    raise EnvironmentProblem("malloc=tcmalloc: it was not found")


def test_nothing_is_missing_on_a_machine_that_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocators, huge pages, bf16 and engines."""
    monkeypatch.setattr(conditions, "find_library", lambda name: Path("/lib/x.so"))
    monkeypatch.setattr(conditions, "installed_version", lambda name: "1.0")
    monkeypatch.setattr(conditions.jittor, "interpreter", lambda: "/opt/jittor/bin/python")
    monkeypatch.setattr(huge_pages, "require_huge_pages", lambda mode, allocator: None)
    found = conditions.read_conditions(replace(SERVER, has_bf16=True), Setting())
    assert found.missing == {}
    assert found.threads == SERVER.threads.count


def test_what_is_missing_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the machine itself gives it, without the option that it begins with."""
    monkeypatch.setattr(conditions, "find_library", refuse)
    monkeypatch.setattr(conditions, "installed_version", lambda name: None)
    monkeypatch.setenv("MODELZOO_JITTOR", "/nowhere")
    monkeypatch.setattr(huge_pages, "system_mode", lambda: "never")
    found = conditions.read_conditions(replace(SERVER, has_bf16=False), Setting()).missing
    assert found["malloc=tcmalloc"] == "it was not found"
    assert found["thp=on"].startswith("transparent huge pages are off on this machine")
    assert found["precision=bf16"] == "this CPU has no instructions for bf16"
    assert found["engine=openvino"] == "it is not installed: pip install 'modelzoo[openvino]'"
    assert found["engine=jittor"] == (
        "Jittor is not installed, its environment /nowhere does not exist: run scripts/setup-jittor"
    )

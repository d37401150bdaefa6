"""Fixtures of the workload tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs' caches of this machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *args, **kwargs: None)

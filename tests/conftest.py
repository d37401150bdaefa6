"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def shared() -> Path:
    """The folder with real data and trained weights; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("MODELZOO_TEST_DATA", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no test data in {folder}: set MODELZOO_TEST_DATA to the folder that holds data/ and weights/")
    return folder


@pytest.fixture(autouse=True)
def _private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never write into the user's caches or the checkout's results, and never try the network."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MODELZOO_OFFLINE", "1")
    for name in ("MODELZOO_WEIGHTS", "MODELZOO_BACKEND", "DNNL_DEFAULT_FPMATH_MODE", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

"""Shared fixtures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from fake_docker import FakeDocker, install
from places import ROOT

# Another program that takes the CPU, or an import inside the first example, may make an example take longer than the
# 200 ms that hypothesis allows by default.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture
def shared() -> Path:
    """Return the directory with real data and trained weights; skip the test if there is none."""
    folder = Path(os.environ.get("MODELZOO_TEST_DATA", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(
            f"no test data in {folder}: set MODELZOO_TEST_DATA to the directory that contains data/ and weights/"
        )
    return folder


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    """Return a fake ``docker`` that is first on the PATH and has no images yet."""
    from modelzoo.measure import docker

    found = install(tmp_path / "engine")
    monkeypatch.setenv("PATH", f"{found.home}{os.pathsep}{os.environ['PATH']}")
    docker.read_image.cache_clear()
    yield found
    docker.read_image.cache_clear()


@pytest.fixture
def numpy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers find the engine that ``toy_workloads.numpy_setting`` names."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(autouse=True)
def _isolated_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's caches, the checkout's results and the network."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MODELZOO_OFFLINE", "1")
    for name in ("MODELZOO_WEIGHTS", "MODELZOO_BACKEND", "DNNL_DEFAULT_FPMATH_MODE", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

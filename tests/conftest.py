"""Shared fixtures."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from fake_docker import FakeDocker, installed
from places import ROOT, SNAPSHOTS

from modelzoo.machine.linux import allowed_cpus

# Another program that takes the CPU, or an import inside the first example, may make an example take longer than the
# 200 ms that hypothesis allows by default.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# A job in a shell's background ignores Ctrl-C, and so would the calls that are tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes what is shown today."""
    parser.addoption(
        "--update-snapshots", action="store_true", help="write tests/snapshots, to be read before a commit"
    )


@pytest.fixture
def approved(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with the snapshot of this name, which somebody has read and approved."""

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if request.config.getoption("--update-snapshots"):
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no snapshot {name}: write it with --update-snapshots, and read it"
        assert text == path.read_text(encoding="utf-8"), f"{name}: if this is right, --update-snapshots, and read it"

    return check


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
    from modelzoo.measure import container

    with installed(tmp_path / "engine") as found:
        monkeypatch.setenv("PATH", f"{found.home}{os.pathsep}{os.environ['PATH']}")
        container.read_image.cache_clear()
        yield found
        container.read_image.cache_clear()


@pytest.fixture
def bound() -> Iterator[frozenset[int]]:
    """Bind this thread to one CPU, as libgomp does with ``OMP_PROC_BIND``; return all CPUs that it had before."""
    cpus = frozenset(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("there is only one CPU")
    assert allowed_cpus() == cpus
    os.sched_setaffinity(0, {min(cpus)})
    yield cpus
    os.sched_setaffinity(0, cpus)


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

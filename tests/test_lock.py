"""scripts/lock --cpu-index, with a real uv and two local indexes: a general one and one of CPU builds."""

from __future__ import annotations

import functools
import hashlib
import http.server
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from places import ROOT
from programs import ran, wheel

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(UV is None, reason="uv is not installed: pip install uv")

PROJECT = """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "toy"
version = "0"
requires-python = ">=3.10"
dependencies = ["torch>=2.6", "torchvision>=0.21", "tiny"]

[project.optional-dependencies]
test = ["checker"]
"""
LOCK = "tiny==1.0 \\\n    --hash=sha256:0000\ntorch==2.10.0 \\\n    --hash=sha256:0000\n"
TORCH = {"torch": "2.14.1", "torchvision": "0.29.1"}


def publish(index: Path, name: str, version: str, tag: str = "py3-none-any", requires: str = "") -> None:
    """Put a wheel into an index in the layout of PEP 503, and write its page anew, with checksums."""
    wheel(index / name, name, version, tag, requires)
    links = (
        f'<a href="{each.name}#sha256={hashlib.sha256(each.read_bytes()).hexdigest()}">{each.name}</a>'
        for each in sorted((index / name).glob("*.whl"))
    )
    (index / name / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")


class Indexes:
    """A server with a general index and one of CPU builds, and a checkout that is locked from them."""

    def __init__(self, directory: Path, address: str) -> None:
        self.directory, self.address = directory, address
        self.checkout = directory / "checkout"
        (self.checkout / "scripts").mkdir(parents=True)
        (self.checkout / "requirements").mkdir()
        shutil.copy(ROOT / "scripts" / "lock", self.checkout / "scripts")
        (self.checkout / "pyproject.toml").write_text(PROJECT)
        (self.checkout / "requirements" / "lock-test.txt").write_text(LOCK)
        general = directory / "general"
        for version in ("1.0", "2.0"):
            publish(general, "tiny", version)
        publish(general, "checker", "1.0")
        publish(general, "setuptools", "80.0")
        # What must not be taken: the CUDA builds of the general index, whose libraries there are none of.
        for name, version in TORCH.items():
            publish(general, name, version, requires="nvidia-cuda")
        publish(directory / "cpu", "tiny", "0.5")

    def build(self, *machines: str) -> None:
        """Put the CPU builds for these machines into PyTorch's index."""
        for machine in machines:
            for name, version in TORCH.items():
                publish(self.directory / "cpu", name, f"{version}+cpu", tag=f"py3-none-manylinux_2_28_{machine}")

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of the script and of uv."""
        assert UV is not None
        return {
            "PATH": f"{Path(UV).parent}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "UV_CACHE_DIR": str(self.directory / "cache"),
            "UV_DEFAULT_INDEX": f"{self.address}/general/",
            "CPU_INDEX": f"{self.address}/cpu/",
            "UV_PYTHON": sys.executable,
            "NO_PROXY": "127.0.0.1",
        }

    def lock(self) -> subprocess.CompletedProcess[str]:
        script = self.checkout / "scripts" / "lock"
        return ran(script, "--cpu-index", "2.14.1", "0.29.1", environ=self.variables)

    def written(self) -> list[str]:
        return sorted(path.name for path in (self.checkout / "requirements").iterdir())


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[Indexes]:
    """Two indexes, the one of CPU builds without torch."""
    handler = functools.partial(Silent, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield Indexes(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_cpu_builds_of_both_machines_are_locked_with_checksums(indexes: Indexes) -> None:
    """Everything else as in the lock of the general index; what is locked can be installed."""
    indexes.build("x86_64", "aarch64")
    done = indexes.lock()
    assert done.returncode == 0, done.stderr
    assert indexes.written() == ["lock-cpu-index-test.txt", "lock-cpu-index.txt", "lock-test.txt"]
    lock = indexes.checkout / "requirements" / "lock-cpu-index.txt"
    pins = lock.read_text().split("\n    --hash=sha256:")
    assert len(pins) == 1 + 2 + 2 + 1, "a checksum for each wheel"
    pinned = [line.split(" ")[0] for line in lock.read_text().splitlines() if not line.startswith(" ")]
    assert pinned == ["tiny==1.0", "torch==2.14.1+cpu", "torchvision==0.29.1+cpu"]
    assert "checker==1.0" in (indexes.checkout / "requirements" / "lock-cpu-index-test.txt").read_text()
    if platform.machine() not in ("x86_64", "aarch64"):
        return
    strategy = {"UV_INDEX": indexes.variables["CPU_INDEX"], "UV_INDEX_STRATEGY": "unsafe-best-match"}
    target = indexes.directory / "installed"
    command = (UV, "pip", "install", "--target", target, "--no-deps", "--require-hashes", "-r", lock)
    done = ran(*command, environ=indexes.variables, **strategy)
    assert done.returncode == 0, done.stderr
    assert "2.14.1+cpu" in (target / "torch.py").read_text()
    assert "'1.0'" in (target / "tiny.py").read_text()


def test_an_index_without_builds_for_both_machines_is_refused(indexes: Indexes) -> None:
    """ARM and x86 are compared on one release, and the builds of the general index are not taken in their place."""
    indexes.build("x86_64")
    done = indexes.lock()
    said = f"{indexes.variables['CPU_INDEX']} has no CPU build of torch 2.14.1 and torchvision 0.29.1 for aarch64"
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"lock: error: {said} (see above); nothing was written"
    assert indexes.written() == ["lock-test.txt"]

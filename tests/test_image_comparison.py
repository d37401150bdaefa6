"""``--vary image=default,IMAGE`` with a real engine, and a hostile image. Needs an engine and an image.

``./scripts/test -m docker`` runs it. MODELZOO_TEST_IMAGE selects another image than the default.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from toy_workloads import SHORT, mlp, odd, runs_of

from modelzoo.measure.jobs import Request
from modelzoo.setting import Setting

pytestmark = pytest.mark.docker
IMAGE = os.environ.get("MODELZOO_TEST_IMAGE", "modelzoo:torch2.10.0_x86_modelzoo")
INPUT = "x = float(request.path.read_text()) if request.path else 1.0; assert x == 1.0, x"
HOSTILE = """
import json, os

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure import preparation
from modelzoo.measure.instance import Instance

honest = preparation.prepare

def prepare(job, send):
    found = honest(job, send)
    paths = os.environ["LIES"].split(":")
    lie = lambda each, path: replace(each, weights=replace(each.weights, path=path))
    return tuple(replace(a, prepared=lie(a.prepared, b)) for a, b in zip(found, paths))

def load(self):
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4] for line in file]
    with open("/proc/self/status") as file:
        status = dict(line.rstrip().split(":\\t", 1) for line in file if ":\\t" in line)
    found = {"mounts": mounts, "uid": os.getuid(), "network": os.listdir("/sys/class/net"), "status": status}
    raise UsageError(json.dumps(found))

preparation.prepare, Instance.load = prepare, load
"""
"""Imported when Python starts: answers with paths of this machine, and later tells what the container looks like."""
OWN = (
    "/modelzoo/cache",
    "/modelzoo/results",
    "/etc/resolv.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/usr/sbin/docker-init",
)
"""Mounts of every container, besides those of the kernel's file systems."""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[str]:
    """The name of an image whose workers answer with paths of this machine; it names root as its user."""
    name = f"modelzoo-hostile:{uuid.uuid4().hex[:12]}"
    (tmp_path / "sitecustomize.py").write_text(HOSTILE)
    lies = "/etc/shadow:/etc:/var/run/docker.sock"
    (tmp_path / "Dockerfile").write_text(
        f"FROM {IMAGE}\nUSER 0\nCOPY sitecustomize.py /hostile/\nENV PYTHONPATH=/hostile LIES={lies}\n"
    )
    subprocess.run(["docker", "build", "--quiet", "--tag", name, str(tmp_path)], check=True, capture_output=True)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], check=True, capture_output=True)


def test_a_hostile_image_gets_no_file_of_this_machine_and_no_privilege(hostile: str) -> None:
    """It answers with a file, a directory and a socket, and sees none of them."""
    settings = tuple(Setting(weights="random", threads=1, image=hostile, seed=seed) for seed in range(3))
    runs = runs_of(Request(mlp(), settings, SHORT, audit=False))
    assert len(runs) == 3
    for run in runs:
        assert run.error is not None
        found = json.loads(run.error)
        kernel = ("/proc", "/sys", "/dev")
        foreign = [path for path in found["mounts"] if path != "/" and not path.startswith(kernel) and path not in OWN]
        assert foreign == []
        assert (found["uid"], found["network"]) == (1000, ["lo"])
        status = found["status"]
        assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
        assert status["NoNewPrivs"] == "1"


def compared(work: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``work`` here and in the image; the results go to result.json in its parent."""
    command = [sys.executable, "-m", "modelzoo", "run", str(work), "--vary", f"image=default,{IMAGE}"]
    command += ["--processes", "1", "--warmup", "1", "--iterations", "3", "--no-audit"]
    command += ["--json", str(work.parent / "result.json"), *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def work() -> Iterator[Path]:
    """A workload in a directory that only its owner can enter; root's home is closed in images, too."""
    with tempfile.TemporaryDirectory(prefix="modelzoo-test-", dir=Path.home()) as closed:
        folder = odd(Path(closed) / "odd", inputs=INPUT).directory
        folder.chmod(0o755)
        (folder / "workload.py").chmod(0o644)
        yield folder


def test_this_machine_and_an_image_run_the_same_files(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights in a closed cache; then a checkpoint and an input in a closed home."""
    monkeypatch.setenv("MODELZOO_CACHE", str(work.parent / "cache"))
    done = compared(work, "--weights", "random")
    assert done.returncode == 0, done.stderr
    (weights,) = (work.parent / "cache" / "random").glob("odd-*.safetensors")
    assert reports(work) == [(stored(weights), None)] * 2
    checkpoint, given = work.parent / "mine.safetensors", work.parent / "input.txt"
    weights.rename(checkpoint)
    given.write_text("1")
    for path in (checkpoint, given):
        path.chmod(0o644)
    done = compared(work, "--weights", str(checkpoint), "--input", str(given))
    assert done.returncode == 0, done.stderr
    assert reports(work) == [(stored(checkpoint), stored(given))] * 2
    assert "/modelzoo/inputs" not in (work.parent / "result.json").read_text() + done.stderr


def reports(work: Path) -> list[tuple[str, str | None]]:
    result = json.loads((work.parent / "result.json").read_text())
    found = [run["report"]["prepared"] for run in result["runs"]]
    return [(each["weights"]["path"], each["setting"]["input"]) for each in found]


def stored(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}"

"""The scripts of scripts/: wrong calls end with one line and exit code 2, before anything is installed or built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from places import ROOT

USAGE = {
    "setup": [[], ["lock-cpu.txt"], ["lock.txt", "lock-test.txt"], ["--help"]],
    "build-images": [["--help"], ["--general-index", "--help"]],
    "push-images": [[], ["no-slash"], ["host/zoo", "--help"]],
    "smoke-images": [["--help"]],
    "container-engine": [[], ["restart"], ["stop", "--all"]],
}


def call(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one of the scripts to its end."""
    command = [ROOT / "scripts" / script, *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("script", "arguments"), [(script, arguments) for script, calls in USAGE.items() for arguments in calls]
)
def test_a_wrong_call_prints_the_usage(script: str, arguments: list[str]) -> None:
    """The arguments are shown in one line, not an error of the shell such as ``1: parameter not set``."""
    done = call(script, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: scripts/{script} ")
    assert done.stderr.count("\n") == 1


def test_an_unknown_torch_build_is_refused() -> None:
    """A misspelled MODELZOO_TORCH must not install the 7 GB build."""
    done = call("setup", "lock.txt", MODELZOO_TORCH="CPU")
    assert (done.returncode, done.stderr) == (
        2,
        "setup: error: MODELZOO_TORCH=CPU is not known; set it to cpu or leave it unset\n",
    )


def test_one_endpoint_is_not_enough() -> None:
    """``--nodes`` needs an endpoint for each architecture."""
    done = call("push-images", "host/zoo", "--nodes", "local")
    assert (done.returncode, done.stderr) == (
        2,
        "push-images: error: --nodes needs two Docker endpoints, first that of amd64\n",
    )


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("lock", [], "lock: error: uv is not installed"),
        ("build-images", [], "build-images: error: docker buildx is not installed"),
        ("push-images", ["host/zoo"], "push-images: error: docker buildx is not installed"),
        ("smoke-images", [], "smoke-images: error: no Docker engine answers"),
    ],
)
def test_a_missing_program_is_reported(script: str, arguments: list[str], message: str, tmp_path: Path) -> None:
    """The script says what to install, instead of ``not found`` and exit code 127."""
    for name in ("dirname", "git", "mktemp", "chmod", "mkdir", "rm"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = call(script, *arguments, PATH=str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert message in done.stderr

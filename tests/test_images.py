"""The images, run with the limits and users that they may meet. Needs an engine and images (scripts/build-images).

``./scripts/test -m docker`` runs the image of this machine's architecture, ``-m arm`` the arm64 images (under QEMU
unless this machine is ARM). MODELZOO_TEST_IMAGE selects another image than the default.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from modelzoo.errors import EnvironmentProblem
from modelzoo.measure import container as engine

IMAGE = os.environ.get("MODELZOO_TEST_IMAGE", "modelzoo:torch2.10.0_x86_modelzoo")


def docker(
    *arguments: str, options: Sequence[str] = (), results: Path | None = None, image: str = IMAGE
) -> subprocess.CompletedProcess[str]:
    volume = [] if results is None else ["--volume", f"{results}:/modelzoo/results"]
    command = ["docker", "run", "--rm", "--env", "MODELZOO_OFFLINE=1", *options, *volume, image, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


USABLE = (
    "import json, msgspec; from modelzoo.machine import cpu; "
    "print(json.dumps({**msgspec.structs.asdict(cpu.usable_threads()), 'memory': cpu.memory_limit()}))"
)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # The quota is rounded down: a second thread would be throttled in each period.
        (["--cpus", "1.5"], {"quota": 1.5, "count": 1}),
        (["--cpuset-cpus", "0"], {"affinity": 1, "count": 1, "quota": None}),
        (["--memory", "4g"], {"memory": 4 * 2**30}),
    ],
)
def test_limits_of_a_container_are_found(options: list[str], expected: dict[str, Any]) -> None:
    done = docker("python3", "-c", USABLE, options=options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).items() >= expected.items()


@pytest.fixture
def arm_engine() -> None:
    """Skip a test of the arm64 images, which ``-m slow`` selects as well, if there is nothing to run them."""
    try:
        code, _, problem = engine.run("version")
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    if code:
        pytest.skip(f"the arm64 images need a Docker engine ({problem}): scripts/container-engine start")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a directory that the image's user may write to."""
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def only_result(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.json")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def wait_for_a_run(folder: Path, running: subprocess.Popen[str], also: Callable[[], bool] = lambda: True) -> None:
    """Wait until a result in ``folder`` has a run."""
    deadline = time.monotonic() + 300
    while not (any(json.loads(path.read_text())["runs"] for path in folder.glob("[!.]*.json")) and also()):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)


FEW = ["--processes", "1", "--warmup", "1", "--iterations", "3", "--no-audit"]
NOBODY = "--user 12345:12345 --read-only --tmpfs /tmp"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("words", "options", "timed"),
    [
        ("run examples/mlp", "", ["mlp", "mlp-bf16"]),
        ("run examples/mlp", "--read-only", ["mlp", "mlp-bf16"]),
        ("run examples/mlp", f"{NOBODY} --cap-drop ALL --network none", ["mlp", "mlp-bf16"]),
        ("run examples/mlp --precision fp32 --mode compile", NOBODY, ["mlp"]),
        ("python3 performance.py", "--workdir /modelzoo/resnet50", ["resnet50"]),
    ],
)
def test_any_user_gets_a_result(words: str, options: str, timed: list[str], results: Path) -> None:
    """[TARGET] lines and a result that names the image; Inductor finds its compiler and a cache that it can write."""
    done = docker(*words.split(), *FEW, options=options.split(), results=results)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\[TARGET\] (\S+) Time [0-9.]+$", done.stdout, re.MULTILINE)[: len(timed)] == timed
    assert "Traceback" not in done.stderr
    machine = only_result(results)["runs"][0]["report"]["provenance"]["machine"]
    assert (machine["image"], machine["container"]) == (IMAGE.rpartition(":")[2], "docker")


@pytest.mark.docker
def test_an_image_lists_what_is_in_it() -> None:
    """Its bill of materials has the torch that it runs, the suite, and Debian's packages."""
    done = docker("cat", "/modelzoo/sbom/image.cdx.json")
    assert done.returncode == 0, done.stderr
    listed = {each["purl"].partition("@")[0] for each in json.loads(done.stdout)["components"]}
    assert {"pkg:pypi/torch", "pkg:generic/modelzoo", "pkg:generic/python", "pkg:deb/debian/libc6"} <= listed


@pytest.mark.docker
def test_validation_writes_into_the_volume(results: Path) -> None:
    done = docker("validate", "bert", "--bf16", "--option", "sequence=64", "--limit", "1", results=results)
    assert not re.search("Traceback|cannot write", done.stderr)
    assert only_result(results)["validity"][0]["report"] is not None
    assert (results / "output" / "bert").is_dir()


@pytest.mark.docker
@pytest.mark.parametrize("how", [["kill", "--signal", "INT"], ["stop"]], ids=["Ctrl-C", "docker stop"])
def test_an_interrupted_run_keeps_what_it_has(how: list[str], results: Path) -> None:
    """It ends at once."""
    name = f"modelzoo-test-{uuid.uuid4().hex[:8]}"
    words = ["run", "examples/mlp", "--processes", "20", "--max-seconds", "3", "--no-audit"]
    command = ["docker", "run", "--rm", "--name", name, "--volume", f"{results}:/modelzoo/results", IMAGE, *words]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_a_run(results, running)
        subprocess.run(["docker", *how, name], check=True, capture_output=True)
        stdout, stderr = running.communicate(timeout=9)  # docker stop would kill it after 10
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)
    assert running.returncode == 130, stderr
    kept = len(only_result(results)["runs"])
    assert kept > 0
    assert f"interrupted; {kept} finished runs are in /modelzoo/results/" in stderr
    assert stdout.startswith("[TARGET] mlp Time ")


def containers() -> list[str]:
    command = ["docker", "ps", "--all", "--filter", "name=modelzoo-", "--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.docker
def test_an_interrupted_call_removes_its_containers(tmp_path: Path) -> None:
    words = ["run", "examples/mlp", "--image", IMAGE, "--vary", "seed=0,0", "--weights", "random"]
    words += ["--processes", "20", "--max-seconds", "3", "--no-audit", "--json", str(tmp_path / "r.json")]
    running = subprocess.Popen([sys.executable, "-m", "modelzoo", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_a_run(tmp_path, running, lambda: len(containers()) == 2)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)  # an engine that removes what it is just pausing takes its time
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert containers() == []


@pytest.mark.arm
@pytest.mark.slow
@pytest.mark.usefixtures("arm_engine")
@pytest.mark.parametrize(("cpu", "has"), [("neoverse-n2", True), ("neoverse-n1", False)])
def test_arm_image_detects_whether_the_cpu_has_bf16(cpu: str, has: bool) -> None:
    """On N2 the ACL image proves bf16 ACTIVE for Linear and convolution; on N1 it reports that the CPU has no bf16."""
    done = subprocess.run(
        [ROOT / "scripts/smoke-images", "torch2.10.0_acl_modelzoo"],
        env={**os.environ, "QEMU_CPU": cpu, "REFERENCE": IMAGE.rpartition(":")[2]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert ("this CPU has no bf16 instructions" in done.stdout) is not has
    assert ("bf16: ACTIVE" in done.stdout) is has


@pytest.mark.arm
@pytest.mark.slow
@pytest.mark.usefixtures("arm_engine")
@pytest.mark.parametrize(
    ("tag", "line", "kernel"),
    [
        ("torch2.10.0_acl_modelzoo", "bf16: ACTIVE (100 %", "oneDNN gemm:acl"),
        ("torch2.10.0_openblas_modelzoo", "bf16: ACTIVE (100 %", "openblas sbgemm"),
    ],
)
def test_proof_in_each_arm_image(tag: str, line: str, kernel: str) -> None:
    """On an emulated Neoverse N2, each image runs convolution and Linear in the documented precision and kernel."""
    options = ["--platform", "linux/arm64", "--env", "QEMU_CPU=neoverse-n2", "--env", "COLUMNS=200"]
    options += ["--volume", f"{ROOT}/tests/docker:/smoke:ro"]
    image = f"{IMAGE.rpartition(':')[0]}:{tag}"
    done = docker("run", "/smoke/conv_linear", "--bf16", "--details", options=options, image=image)
    assert done.returncode == 0, done.stderr
    assert line in done.stderr
    assert kernel in done.stderr

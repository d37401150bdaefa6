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
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from programs import ran
from toy_workloads import SHORT, mlp, odd, runs_of

from modelzoo.errors import EnvironmentProblem
from modelzoo.measure import container as engine
from modelzoo.measure.jobs import Request
from modelzoo.setting import Setting

IMAGE = os.environ.get("MODELZOO_TEST_IMAGE", "modelzoo:torch2.10.0_x86_modelzoo")


def docker(
    *arguments: str, options: Sequence[str] = (), results: Path | None = None, image: str = IMAGE
) -> subprocess.CompletedProcess[str]:
    volume = [] if results is None else ["--volume", f"{results}:/modelzoo/results"]
    return ran("docker", "run", "--rm", "--env", "MODELZOO_OFFLINE=1", *options, *volume, image, *arguments)


USABLE = (
    "import json, msgspec; from modelzoo.machine import facts; "
    "print(json.dumps({**msgspec.structs.asdict(facts.usable_threads()), 'memory': facts.memory_limit()}))"
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
    """Not those of the host."""
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
    """Pictures and tables of ``validate`` go to the volume, not into the image."""
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
    """Ctrl-C while one of two containers is paused."""
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


@pytest.mark.docker
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
    return ran(*command, PYTHONPATH=str(ROOT))


@pytest.fixture
def work() -> Iterator[Path]:
    """A workload in a directory that only its owner can enter; root's home is closed in images, too."""
    with tempfile.TemporaryDirectory(prefix="modelzoo-test-", dir=Path.home()) as closed:
        folder = odd(Path(closed) / "odd", inputs=INPUT).directory
        folder.chmod(0o755)
        (folder / "workload.py").chmod(0o644)
        yield folder


@pytest.mark.docker
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

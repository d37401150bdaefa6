"""Workers in containers, with a fake ``docker`` whose containers are processes of this machine.

What is wrong with the program ``docker``, or with an image, is said in one line.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from fake_docker import FakeDocker
from toy_workloads import RANDOM, SHORT, mlp, numpy_classifier, numpy_setting, odd_numpy, runs_of, silent

from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, WorkerError
from modelzoo.machine.linux import allowed_cpus, format_cpu_list
from modelzoo.measure import container, jobs
from modelzoo.measure.container import ContainerLauncher, read_image
from modelzoo.measure.jobs import Request, prepare_environment, prepare_job
from modelzoo.measure.process import Remote
from modelzoo.records.protocol import PrepareJob
from modelzoo.records.validity import ValidityRequest

A = RANDOM.replace(image="zoo:a")
ENDS = "input()"
"""A worker that says nothing; how it was started is what counts."""


def options(call: list[str]) -> dict[str, list[str]]:
    """The options of one ``docker run``."""
    found: dict[str, list[str]] = {}
    for word in call:
        if word.startswith("--"):
            key, _, value = word.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_two_images_and_this_machine_are_measured_in_turn(
    engine: FakeDocker, tmp_path: Path, numpy_engine: None
) -> None:
    """Same weights, ids of the images in the result, workers that wait are paused, and no container stays."""
    engine.add("zoo:a", MODELZOO_IMAGE="a")
    engine.add("zoo:b", MODELZOO_IMAGE="b")
    work = odd_numpy(tmp_path / "odd")
    here = numpy_setting(work)
    runs = runs_of(Request(work, (here.replace(image="zoo:a"), here, here.replace(image="zoo:b")), SHORT))
    assert [run.error for run in runs] == [None] * 3
    reports = [run.report for run in sorted(runs, key=lambda run: run.group) if run.report is not None]
    machines = [report.provenance.machine for report in reports]
    found = [(machine.image, machine.image_id) for machine in machines]
    assert found == [("a", "sha256:zoo:a"), (None, None), ("b", "sha256:zoo:b")]
    assert len({report.prepared.weights for report in reports}) == 1
    waited = {report.usage.waited_seconds for report in reports if report.usage}
    assert waited == {0.0}, "the turns of the others are no part of what is observed, here and in containers"
    assert engine.containers() == []
    names = [options(call)["--name"][0] for call in engine.calls("run")]
    assert len(set(names)) == 4, "two preparations and two measurements"
    assert engine.calls("pause") == engine.calls("unpause")
    assert {name for (name,) in engine.calls("pause")} == set(names[2:])


def test_a_container_has_the_limits_of_this_process(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs, quota and memory; a cache of its image; no privilege; nothing is pulled, and nothing remains."""
    engine.add("zoo:a", worker=ENDS)
    monkeypatch.setattr(container, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(container, "cgroup_memory", lambda: 1 << 30)
    jobs.prepare(Request(mlp(), (A,), SHORT), silent)
    (call,) = engine.calls("run")
    found = options(call)
    assert {"--interactive", "--rm", "--init"} < found.keys()
    assert found["--cpuset-cpus"] == [format_cpu_list(allowed_cpus())]
    assert (found["--cpus"], found["--memory"], found["--pull"]) == (["1.5"], [str(1 << 30)], ["never"])
    assert (found["--volume"], found["--entrypoint"]) == (["modelzoo-cache-a:/modelzoo/cache"], ["python3"])
    assert (found["--user"], found["--cap-drop"]) == (["1000:1000"], ["ALL"])
    assert (found["--security-opt"], found["--log-driver"]) == (["no-new-privileges"], ["none"])
    assert found["--network"] == ["none"]
    assert call[-3:] == ["sha256:zoo:a", "-m", "modelzoo.measure.worker"]


@pytest.mark.parametrize(("device", "gpus"), [("cpu", None), ("cuda:1", ["all"])])
def test_a_container_has_the_cpus_and_gpus_that_its_setting_uses(
    device: str, gpus: list[str] | None, engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an instance that shares the machine with others; those on CPUs do not depend on NVIDIA's toolkit."""
    engine.add("zoo:a", worker=ENDS)
    launcher = ContainerLauncher("zoo:a", cpus=frozenset({min(allowed_cpus())}))
    monkeypatch.setattr(Request, "launcher_of", lambda *words: launcher)
    jobs.prepare(Request(mlp(), (A.replace(device=device),), SHORT), silent)
    (call,) = engine.calls("run")
    assert (options(call)["--cpuset-cpus"], options(call).get("--gpus")) == ([str(min(allowed_cpus()))], gpus)


def test_the_environment_is_the_images_with_what_changes_speed_here(
    engine: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast math that an image sets is removed and recorded; what names something on this machine does not pass."""
    engine.add("zoo:a", DNNL_DEFAULT_FPMATH_MODE="BF16", ARM_COMPUTE_FAST_MATH="2", LD_BIND_NOW="1")
    for name, value in {
        "ARM_COMPUTE_FAST_MATH": "1",
        "MALLOC_TRIM_THRESHOLD_": "100000",
        "TORCH_HOME": "/home/me/torch",
        "LD_PRELOAD": "",
        "MODELZOO_BACKEND": "blas",
        "SECRET": "s",
    }.items():
        monkeypatch.setenv(name, value)
    work = odd_numpy(tmp_path / "odd")
    (run,) = runs_of(Request(work, (numpy_setting(work).replace(image="zoo:a"),), SHORT, audit=False))
    assert run.report is not None, run.error
    removed = {"DNNL_DEFAULT_FPMATH_MODE", "ARM_COMPUTE_FAST_MATH"}
    assert run.report.provenance.environment.removed.keys() == removed
    assert removed.isdisjoint(run.report.provenance.machine.environment)
    given = options(engine.calls("run")[-1])["--env"]
    assert {"DNNL_DEFAULT_FPMATH_MODE", "MALLOC_TRIM_THRESHOLD_=100000", "OMP_NUM_THREADS=1"} < set(given)
    assert "PYTHONNOUSERSITE=1" in given, "the home directory of images is their cache"
    names = {text.partition("=")[0] for text in given}
    assert names.isdisjoint({"TORCH_HOME", "LD_PRELOAD", "MODELZOO_BACKEND", "SECRET", "PATH", "HOME", "LD_BIND_NOW"})


def test_predictions_are_judged_in_the_image(engine: FakeDocker, tmp_path: Path) -> None:
    """Both models run there."""
    engine.add("zoo:a")
    work = numpy_classifier(tmp_path / "work")
    setting = numpy_setting(work).replace(precision="bf16", image="zoo:a")
    request = Request(work, (setting,), SHORT)
    report = jobs.validate(request, ValidityRequest(), silent, lambda exhibit: None)
    assert report.provenance.machine is not None
    assert report.provenance.machine.image_id == "sha256:zoo:a"
    assert len(engine.calls("run")) == 2


def test_a_checkpoint_and_an_input_go_by_their_paths_of_this_machine(
    engine: FakeDocker, tmp_path: Path, numpy_engine: None
) -> None:
    """In the image, in the result, and in errors; the directories above them may be closed."""
    inputs = "assert request.path.name == 'in put.txt' and request.path.read_text() == 'x'"
    work = odd_numpy(tmp_path / "odd", inputs=inputs)
    given = tmp_path / "in put.txt"
    given.write_text("x")
    engine.add("zoo:a")
    there = numpy_setting(work).replace(input=str(given), image="zoo:a")
    (run,) = runs_of(Request(work, (there,), SHORT, audit=False))
    assert run.report is not None, run.error
    assert run.report.setting.input == str(given)
    assert run.report.prepared.weights.path == there.weights
    requested = there.replace(weights=str(tmp_path / "nothing"))
    (prepared,) = jobs.prepare(Request(work, (requested,), SHORT), silent)
    assert prepared.error == (
        f"--weights {tmp_path}/nothing: it does not exist; give auto, pretrained, random, a file or a directory"
    )


def test_a_container_that_cannot_be_paused_is_an_error(engine: FakeDocker) -> None:
    """Its threads might disturb the others; of one that has ended there is nothing to pause."""
    engine.add("zoo:a")
    launcher = ContainerLauncher("zoo:a")
    job = prepare_job(mlp(), (A,))
    with Remote(launcher, job, prepare_environment(launcher.environment()), print) as worker:
        engine.say(problem="Error response from daemon: cgroup freezer is not available")
        with pytest.raises(EnvironmentProblem, match="'docker pause' failed, so .*: cgroup freezer is not available"):
            worker.suspend()
        engine.say(problem="Error response from daemon: Container abc is not running")
        worker.suspend()
        engine.say()


@pytest.mark.parametrize(
    ("code", "output", "kind", "message"),
    [
        (
            125,
            "docker: Error response from daemon: no space left.\n\nRun 'docker run --help'",
            EnvironmentProblem,
            "docker cannot start image zoo:a: no space left",
        ),
        (127, "exec: python3: not found", EnvironmentProblem, "image zoo:a has no python3: give an image of the suite"),
        (1, "python3: No module named 'modelzoo'", EnvironmentProblem, "image zoo:a has no module 'modelzoo': give an"),
        (128 + signal.SIGKILL, "", WorkerError, "ended by SIGKILL (out of memory?"),
        (1, "ArithmeticError: 7 is not 8", WorkerError, "ended with code 1: ArithmeticError: 7 is not 8"),
    ],
)
def test_every_end_is_explained(
    code: int, output: str, kind: type[ModelzooError], message: str, engine: FakeDocker
) -> None:
    """docker's own exit codes, an image without the suite, signals as seen from outside, and the worker's last line."""
    engine.add("zoo:a")
    error = ContainerLauncher("zoo:a").explain(PrepareJob(str(mlp().directory), (A,), None), code, output)
    assert type(error) is kind
    assert message in str(error)


DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
FORBIDDEN = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("host", "problem", "kind", "message"),
    [
        ("unix:///run/docker.sock", "", UsageError, "is not on this machine; fetch it with 'docker pull zoo:b', or"),
        ("ssh://arm-server", "", UsageError, "the Docker engine is on another machine (ssh://arm-server); run"),
        ("", DOWN, EnvironmentProblem, "no Docker engine answers (Cannot connect to the Docker daemon at"),
        ("", FORBIDDEN, EnvironmentProblem, "no Docker engine answers (permission denied while trying to connect"),
        ("", "warning\nError: the disk is broken", EnvironmentProblem, "docker reports: the disk is broken"),
    ],
)
def test_what_is_wrong_is_one_line(
    host: str, problem: str, kind: type[ModelzooError], message: str, engine: FakeDocker
) -> None:
    """An image that is not here is not pulled; the engine must run, on this machine, for this user."""
    engine.say(host, problem)
    with pytest.raises(kind) as caught:
        read_image("zoo:b")
    assert str(caught.value).startswith("image=zoo:b")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_machine_without_docker_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is missing."""
    container.read_image.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="needs the program docker: No such file or directory; install Docker"):
        read_image("zoo:a")

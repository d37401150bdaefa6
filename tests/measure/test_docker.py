"""The program ``docker``: what is wrong with it, or with an image, is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_docker import FakeDocker

from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError
from modelzoo.measure import container
from modelzoo.measure.container import problem_line, read_image

DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
FORBIDDEN = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


def test_an_image_is_known_by_its_id_and_its_variables(engine: FakeDocker) -> None:
    """Values may contain an equals sign; a second look asks nobody."""
    engine.add("zoo:a", MODELZOO_BACKEND="blas", GLIBC_TUNABLES="a=b")
    found = read_image("zoo:a")
    assert found.digest == "sha256:zoo:a"
    assert found.environment == {"MODELZOO_BACKEND": "blas", "GLIBC_TUNABLES": "a=b"}
    assert read_image("zoo:a") is found
    assert len(engine.calls("image inspect")) == 1


@pytest.mark.parametrize(
    ("host", "problem", "kind", "message"),
    [
        ("unix:///run/docker.sock", "", UsageError, "is not on this machine; fetch it with 'docker pull zoo:b', or"),
        (
            "ssh://arm-server",
            "",
            UsageError,
            "the Docker engine is on another machine (ssh://arm-server); run modelzoo",
        ),
        ("", DOWN, EnvironmentProblem, "no Docker engine answers (Cannot connect to the Docker daemon at"),
        ("", FORBIDDEN, EnvironmentProblem, "no Docker engine answers (permission denied while trying to connect"),
        ("", "Error: the disk is broken", EnvironmentProblem, "docker reports: the disk is broken"),
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


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("warning\ndocker: Error response from daemon: no space left.\n\nRun 'docker run --help'", "no space left."),
        ("one\ntwo", "two"),
    ],
)
def test_the_line_that_matters(output: str, line: str) -> None:
    """Without prefixes and without the advice to read the help."""
    assert problem_line(output) == line

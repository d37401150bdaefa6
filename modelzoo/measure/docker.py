"""Calls of the program ``docker``, with errors in one line."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from modelzoo.errors import EnvironmentProblem, UsageError

_SECONDS = 60
_LOCAL = ("unix://", "npipe://", "fd://")


@dataclass(frozen=True)
class Image:
    """A container image on this machine.

    Attributes:
        name: as it was given.
        digest: its id, the SHA-256 of its configuration, which names its content: ``sha256:…``.
        environment: the variables that it sets.
    """

    name: str
    digest: str
    environment: Mapping[str, str]


@functools.cache
def read_image(name: str) -> Image:
    """Return what the engine knows about an image; nothing is pulled.

    Raises:
        UsageError: there is no such image, or the engine runs on another machine.
        EnvironmentProblem: there is no program ``docker``, or no engine answers.
    """
    _require_local_engine(name)
    code, output, problem = run("image", "inspect", "--format", "{{json .}}", name)
    if code:
        if "no such image" in problem.lower() or "invalid reference" in problem.lower():
            raise UsageError(
                f"image={name} is not on this machine; fetch it with 'docker pull {name}', or build it with "
                "scripts/build-images"
            )
        raise _unusable(name, problem)
    found = json.loads(output)
    pairs = (text.partition("=") for text in found["Config"].get("Env") or ())
    return Image(name, found["Id"], {key: value for key, _, value in pairs})


def _require_local_engine(name: str) -> None:
    """The reference load, the CPUs and the memory are those of this machine, so the containers must be, too."""
    code, output, _ = run("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    host = output.strip()
    if code == 0 and host and not host.startswith(_LOCAL):
        raise UsageError(f"image={name}: the Docker engine is on another machine ({host}); run modelzoo there instead")


def run(*words: str) -> tuple[int, str, str]:
    """Run ``docker`` to its end; return its exit code, its output and the line that says what went wrong.

    Raises:
        EnvironmentProblem: there is no such program, or it does not end.
    """
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except OSError as error:
        raise EnvironmentProblem(f"image=… needs the program docker: {error.strerror}; install Docker") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(f"'docker {words[0]}' has not ended within {_SECONDS} s; check the engine") from error
    return done.returncode, done.stdout, problem_line(done.stderr)


def problem_line(output: str) -> str:
    """Return the line of ``docker``'s output that says what went wrong, without its prefixes."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = next((line for line in lines if "error" in line.lower() or line.startswith("docker:")), "".join(lines[-1:]))
    for prefix in ("docker:", "Error response from daemon:", "Error:", "error:"):
        found = found.removeprefix(prefix).strip()
    return found


def _unusable(name: str, problem: str) -> EnvironmentProblem:
    if "daemon running" in problem or "Cannot connect" in problem or "permission denied" in problem.lower():
        return EnvironmentProblem(
            f"image={name}: no Docker engine answers ({problem.rstrip('.')}); start it, or run scripts/container-engine"
            " start"
        )
    return EnvironmentProblem(f"image={name}: docker reports: {problem}")

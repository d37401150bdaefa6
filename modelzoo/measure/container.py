"""Workers in containers: ``docker run``, with the CPUs, the memory and the files that a worker on this machine has.

If the calling process is killed (SIGKILL), the guardian removes its containers. If that is killed too, paused ones are
left over, and the next call removes them. The label of each names the process that started it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar

import msgspec

from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, WorkerError
from modelzoo.frozen import replace
from modelzoo.machine.environment import IMAGE_ID_VARIABLE, recorded_environment
from modelzoo.machine.linux import allowed_cpus, cgroup_memory, cpu_quota, format_cpu_list
from modelzoo.measure.guardian import CONTAINER, GUARDIAN
from modelzoo.measure.launcher import WORKER, LocalLauncher, LocalWorker, explain_end, start_guarded
from modelzoo.measure.mounts import (
    USER,
    cache_name,
    cache_options,
    caches,
    inside,
    is_within,
    known_weights,
    mount_options,
    named_files,
    network_options,
    outside,
    path_in,
    place,
)
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import Job, Message, Preparation, PrepareJob, decode_message, encode_job
from modelzoo.records.run import RunReport, ValidityReport
from modelzoo.records.serving import InstanceReport
from modelzoo.workload.checkpoints import OFFLINE

_OWN = ("MODELZOO_", "LD_PRELOAD")
"""Variables of this machine's suite, and of its libraries, that mean nothing in an image."""
_UNPRIVILEGED = (
    f"--user={USER}:{USER}",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--log-driver=none",  # or the engine would store all messages, of any length
)
_NO_USER_SITE = {"PYTHONNOUSERSITE": "1"}
"""Images have their cache as the home directory; Python would run what earlier containers left for it there."""
_ENDED = ("is not running", "no such container")
"""What docker reports of a container that has ended meanwhile."""
_NO_START, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
"""Exit codes of ``docker run`` (source: its reference, "Exit status")."""
_DOCKER_SECONDS = 60
_LOCAL_ENGINES = ("unix://", "npipe://", "fd://")
CALLER_LABEL = "modelzoo.caller"
"""Of a container: the id of the process that started it, and the namespace in which that is its id."""
PREFIX = "modelzoo-"
"""The beginning of the name of each container that the suite starts."""
_PID_NAMESPACE = Path("/proc/self/ns/pid")


class ContainerLauncher(msgspec.Struct, frozen=True):
    """Workers in containers of an image, each in one of its own.

    A container has the CPUs and the limits of this process, the cache of its image, and, read-only, the files of this
    machine that the job names (``modelzoo.measure.mounts``). It runs without any privilege, as an ordinary user whoever
    the image names, and only if it may have to download weights with a network.

    Attributes:
        image: name of the image.
        python: the interpreter in it that runs workers.
        cpus: logical CPUs that the worker is restricted to, by default those of this process.
    """

    is_local: ClassVar[bool] = False
    image: str
    python: str = "python3"
    cpus: frozenset[int] | None = None

    @property
    def name(self) -> str:
        return f"image {self.image}"

    def environment(self) -> Mapping[str, str]:
        """The image's variables, and those of the call that change speed or precision.

        Variables that name a path of this machine stay here.
        """
        image = read_image(self.image)
        passed = {
            name: value
            for name, value in recorded_environment(os.environ).items()
            if value == os.environ[name] and not name.startswith(_OWN) and "/" not in value
        }
        passed.update({name: os.environ[name] for name in OFFLINE if name in os.environ})
        own = path_in(os.environ, "MODELZOO_WEIGHTS")
        if own is not None:
            passed["MODELZOO_WEIGHTS"] = place(own)
        return {**image.environment, **passed, **_NO_USER_SITE, IMAGE_ID_VARIABLE: image.digest}

    def write(self, job: Job) -> bytes:
        """Return the job with the paths that its files have in the container, and without this process's id."""
        line = encode_job(replace(job, parent=None))
        return inside(line, job, named_files(job, os.environ), self._cache())

    def read(self, job: Job, line: bytes) -> Message:
        names = named_files(job, os.environ)
        message = decode_message(outside(line, names, self._cache()))
        check_message(message, names)
        return message

    def check(self, job: Job, answer: object) -> None:
        check_answer(answer, job, self._cache())

    def start(self, job: Job, environment: Mapping[str, str], stderr: IO[bytes]) -> Container:
        if isinstance(job, PrepareJob):  # the image's first container in this call
            remove_leftovers()
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        label = f"{CALLER_LABEL}={os.getpid()}@{_namespace()}"
        options = ["--interactive", "--rm", "--init", f"--name={name}", f"--label={label}", "--pull=never"]
        options += [
            f"--entrypoint={self.python}",
            *_UNPRIVILEGED,
            *network_options(job, os.environ),
            f"--cpuset-cpus={format_cpu_list(allowed_cpus() if self.cpus is None else self.cpus)}",
        ]
        quota, memory = cpu_quota(), cgroup_memory()  # of this process's control group, which containers are not in
        options += [f"--cpus={quota:g}"] if quota is not None else []
        options += [f"--memory={memory}"] if memory is not None else []
        if any(setting.device.partition(":")[0] == "cuda" for setting in job.settings):
            options.append("--gpus=all")  # other accelerators have no such option
        options += [*cache_options(job, self._cache()), *mount_options(job, os.environ)]
        image = read_image(self.image)
        changed = [f"{name}={value}" for name, value in environment.items() if image.environment.get(name) != value]
        removed = [name for name in image.environment if name not in environment]
        # A name without a value stands for the value that docker's program has, and removes the variable without one.
        own = {name: value for name, value in os.environ.items() if name not in removed}
        options += [f"--env={each}" for each in (*changed, *removed)]
        try:
            GUARDIAN.guard(CONTAINER, name)
            # The id names the same image during the whole call, even if another one is given its name meanwhile.
            program = start_guarded(["docker", "run", *options, image.digest, *WORKER], own, stderr)
        except OSError as error:
            GUARDIAN.release(CONTAINER, name)
            raise EnvironmentProblem(f"cannot start docker: {error.strerror}; install Docker") from error
        return Container(program.process, name)

    def explain(self, job: Job, code: int, output: str) -> ModelzooError:
        output = outside(output.encode(), named_files(job, os.environ), self._cache()).decode()
        if code == _NO_START:
            return EnvironmentProblem(f"docker cannot start {self.name}: {problem_line(output)}")
        hint = "give an image of the suite; scripts/build-images makes them, and their names end in _modelzoo"
        if code in (_NOT_EXECUTABLE, _NOT_FOUND):
            return EnvironmentProblem(f"{self.name} has no {self.python}: {hint}")
        # A process that a signal ended has, as seen from outside its container, 128 plus the signal's number.
        number = 128 - code if 128 < code < 128 + signal.NSIG else code
        return explain_end(number, output, self.name, hint)

    def _cache(self) -> str:
        return cache_name(read_image(self.image).digest)


Launcher = LocalLauncher | ContainerLauncher
"""A way to start workers."""


def check_message(message: Message, names: Collection[str]) -> None:
    """Raise ``WorkerError`` for what would make this process read any file but those in ``names``.

    Args:
        message: what a container has sent, with the paths of this machine.
        names: ``named_files`` of its job.
    """
    picture = message.detections if isinstance(message, Exhibit) else None
    if picture is not None and picture.source.path is not None and not is_within(picture.source.path, names):
        raise WorkerError(f"the worker wants to draw on {picture.source.path}, a file that it was not shown")


def check_answer(answer: object, job: Job, cache: str) -> None:
    """Raise ``WorkerError`` for what would make this process record or show anything but what ``job`` names.

    Args:
        answer: what a container has answered, with the paths of this machine.
        job: what it is for.
        cache: the name of the cache of its image.
    """
    if isinstance(job, PrepareJob):
        for each in answer if isinstance(answer, tuple) else ():
            found = each.prepared if isinstance(each, Preparation) else None
            if found is not None and not caches([found.weights]) <= {cache, *caches(known_weights(job))}:
                raise WorkerError(
                    f"the worker names {found.weights.path}, in the cache of an image that it was not shown"
                )
        return
    report = answer.context if isinstance(answer, InstanceReport) else answer
    if isinstance(report, (RunReport, ValidityReport)) and encode_json(report.prepared) != encode_json(job.prepared):
        raise WorkerError("the worker answered for another setting, or other weights, than it was given")


class Container(LocalWorker, frozen=True):
    """A container with its ``docker run``."""

    name: str

    def suspend(self) -> None:
        self._control("pause")

    def resume(self) -> None:
        self._control("unpause")

    def signal(self, number: int) -> None:
        with suppress(EnvironmentProblem):  # then it does not say where it is
            run_docker("kill", f"--signal={number}", self.name)

    def kill(self) -> None:
        # The program may not have created the container yet, so it ends first.
        super().kill()
        # A negative code: something has ended docker's program, so that the container may still run.
        if self.process.returncode < 0:
            run_docker("rm", "--force", "--volumes", self.name)
        GUARDIAN.release(CONTAINER, self.name)

    def _control(self, command: str) -> None:
        code, _, problem = run_docker(command, self.name)
        if code and not any(text in problem.lower() for text in _ENDED):
            raise EnvironmentProblem(f"'docker {command}' failed, so processes would disturb each other: {problem}")


class Image(msgspec.Struct, frozen=True):
    """A container image on this machine.

    Attributes:
        digest: its id, the SHA-256 of its configuration, which names its content: ``sha256:…``.
        environment: the variables that it sets.
    """

    digest: str
    environment: Mapping[str, str]


@functools.cache
def read_image(name: str) -> Image:
    """Return what the engine knows about an image; nothing is pulled.

    Raises:
        UsageError: there is no such image, or the engine runs on another machine.
        EnvironmentProblem: there is no program ``docker``, or no engine answers.
    """
    code, output, _ = run_docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    host = output.strip()
    if code == 0 and host and not host.startswith(_LOCAL_ENGINES):
        raise UsageError(f"image={name}: the Docker engine is on another machine ({host}); run modelzoo there instead")
    code, output, problem = run_docker("image", "inspect", "--format", "{{json .}}", name)
    if code:
        if "no such image" in problem.lower() or "invalid reference" in problem.lower():
            raise UsageError(
                f"image={name} is not on this machine; fetch it with 'docker pull {name}', or build it with "
                "scripts/build-images"
            )
        if "daemon running" in problem or "Cannot connect" in problem or "permission denied" in problem.lower():
            raise EnvironmentProblem(
                f"image={name}: no Docker engine answers ({problem.rstrip('.')}); start it, or run "
                "scripts/container-engine start"
            )
        raise EnvironmentProblem(f"image={name}: docker reports: {problem}")
    description = json.loads(output)
    pairs = (text.partition("=") for text in description["Config"].get("Env") or ())
    return Image(description["Id"], {key: value for key, _, value in pairs})


def run_docker(*words: str) -> tuple[int, str, str]:
    """Run ``docker`` to its end; return its exit code, its output and the line that says what went wrong.

    Raises:
        EnvironmentProblem: there is no such program, or it does not end.
    """
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=_DOCKER_SECONDS, check=False)
    except OSError as error:
        raise EnvironmentProblem(f"image=… needs the program docker: {error.strerror}; install Docker") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(
            f"'docker {words[0]}' has not ended within {_DOCKER_SECONDS} s; check the engine"
        ) from error
    return done.returncode, done.stdout, problem_line(done.stderr)


def problem_line(output: str) -> str:
    """Return the line of ``docker``'s output that says what went wrong, without its prefixes."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    problem = next(
        (line for line in lines if "error" in line.lower() or line.startswith("docker:")), "".join(lines[-1:])
    )
    for prefix in ("docker:", "Error response from daemon:", "Error:", "error:"):
        problem = problem.removeprefix(prefix).strip()
    return problem


def remove_leftovers() -> None:
    """Remove the containers of callers in this namespace that have ended.

    Raises:
        EnvironmentProblem: there is no program ``docker``, or it does not end.
    """
    import psutil

    # An engine that does not answer is reported by the command that starts a container.
    _, listed, _ = run_docker(
        "ps", "--all", f"--filter=label={CALLER_LABEL}", f'--format={{{{.Names}}}} {{{{.Label "{CALLER_LABEL}"}}}}'
    )
    for line in listed.splitlines():
        name, _, caller = line.partition(" ")
        process, _, namespace = caller.partition("@")
        # An image may have such a label, too: only a container with a name of ours is one.
        if not (name.startswith(PREFIX) and process.isdecimal() and process.isascii()):
            continue
        if namespace == _namespace() and not psutil.pid_exists(int(process)):
            run_docker("rm", "--force", "--volumes", name)


def _namespace() -> str:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:  # not Linux
        return ""

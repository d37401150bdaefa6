"""Workers in containers: ``docker run``, with the CPUs, the memory and the files that a worker on this machine has."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Optional

from modelzoo.errors import EnvironmentProblem, ModelzooError
from modelzoo.machine.environment import IMAGE_ID_VARIABLE, recorded_environment
from modelzoo.machine.linux import allowed_cpus, format_cpu_list, read_cgroup_limits
from modelzoo.measure import docker
from modelzoo.measure.answers import accepted
from modelzoo.measure.launcher import WORKER, explain_end
from modelzoo.measure.leftovers import PREFIX, caller_label, remove_leftovers
from modelzoo.measure.mounts import USER, inside, mount_options, named_files, outside, own_weights, place
from modelzoo.records.protocol import Job, Message, PrepareJob, ReferenceJob, decode_message

CACHE_VOLUME = "modelzoo-cache:/modelzoo/cache"
"""The volume that keeps weights, ceilings and compiled models; docs/containers.md mounts it under the same name."""
OFFLINE = ("MODELZOO_OFFLINE", "HF_HUB_OFFLINE")
_OWN = ("MODELZOO_", "LD_PRELOAD")
"""Variables of this machine's suite, and of its libraries, that mean nothing in an image."""
_UNPRIVILEGED = (
    f"--user={USER}:{USER}",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--log-driver=none",  # or the engine would store all messages, of any length
)
_ENDED = ("is not running", "no such container")
"""What docker reports of a container that has ended meanwhile."""
_NO_START, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
"""Exit codes of ``docker run`` (source: its reference, "Exit status")."""


@dataclass(frozen=True)
class ContainerLauncher:
    """Workers in containers of an image, each in one of its own.

    A container has the CPUs and the limits of this process, the cache volume, and, read-only, the files of this machine
    that the job names (``modelzoo.measure.mounts``). It runs without any privilege, as an ordinary user whatever user
    the image names, and only if it may have to download weights with a network.

    Attributes:
        image: name of the image.
        python: the interpreter in it that runs workers.
        cpus: logical CPUs that the worker is restricted to, by default those of this process.
    """

    image: str
    python: str = "python3"
    cpus: Optional[frozenset[int]] = None

    @property
    def name(self) -> str:
        return f"image {self.image}"

    @property
    def is_local(self) -> bool:
        return False

    def environment(self) -> Mapping[str, str]:
        """The image's variables, and those of the call that change speed or precision.

        Variables that name a path of this machine stay here.
        """
        image = docker.read_image(self.image)
        passed = {
            name: value
            for name, value in recorded_environment(os.environ).items()
            if value == os.environ[name] and not name.startswith(_OWN) and "/" not in value
        }
        passed.update({name: os.environ[name] for name in OFFLINE if name in os.environ})
        own = own_weights(os.environ)
        if own is not None:
            passed["MODELZOO_WEIGHTS"] = place(own)
        return {**image.environment, **passed, IMAGE_ID_VARIABLE: image.digest}

    def adapt(self, job: Job) -> Job:
        """Return the job with the paths that its files have in the container, and without this process's id."""
        return inside(job)

    def read(self, job: Job, line: bytes) -> Message:
        names = named_files(job, os.environ)
        return accepted(decode_message(outside(line, names)), job, names)

    def start(self, job: Job, environment: Mapping[str, str], stderr: IO[bytes]) -> Container:
        if isinstance(job, PrepareJob):  # the image's first container in this call
            remove_leftovers()
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        options = ["--interactive", "--rm", "--init", f"--name={name}", f"--label={caller_label()}", "--pull=never"]
        options += [
            f"--entrypoint={self.python}",
            f"--volume={CACHE_VOLUME}",
            *_UNPRIVILEGED,
            *_limits(self.cpus),
            *_network(job),
            *_gpus(job),
        ]
        options += mount_options(job, os.environ)
        image = docker.read_image(self.image)
        changed = [f"{name}={value}" for name, value in environment.items() if image.environment.get(name) != value]
        removed = [name for name in image.environment if name not in environment]
        # A name without a value stands for the value that docker's program has, and removes the variable without one.
        own = {name: value for name, value in os.environ.items() if name not in removed}
        options += [f"--env={each}" for each in (*changed, *removed)]
        try:
            # The id names the same image during the whole call, even if another one is given its name meanwhile.
            process = subprocess.Popen(
                ["docker", "run", *options, image.digest, *WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=own,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentProblem(f"cannot start docker: {error.strerror}; install Docker") from error
        return Container(process, name)

    def explain(self, job: Job, code: int, output: str) -> ModelzooError:
        output = outside(output.encode(), named_files(job, os.environ)).decode()
        if code == _NO_START:
            return EnvironmentProblem(f"docker cannot start {self.name}: {docker.problem_line(output)}")
        hint = "give an image of the suite; scripts/build-images makes them, and their names end in _modelzoo"
        if code in (_NOT_EXECUTABLE, _NOT_FOUND):
            return EnvironmentProblem(f"{self.name} has no {self.python}: {hint}")
        # A process that a signal ended has, as seen from outside its container, 128 plus the signal's number.
        number = 128 - code if 128 < code < 128 + signal.NSIG else code
        return explain_end(number, output, self.name, hint)


@dataclass(frozen=True)
class Container:
    """A container with its ``docker run``."""

    process: subprocess.Popen[bytes]
    name: str

    def suspend(self) -> None:
        self._control("pause")

    def resume(self) -> None:
        self._control("unpause")

    def kill(self) -> None:
        # A negative code: something has ended docker's program, so that the container may still run.
        if (self.process.poll() or 0) < 0 or self.process.returncode is None:
            # The program may not have created the container yet, so it ends first.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            docker.run("rm", "--force", "--volumes", self.name)

    def _control(self, command: str) -> None:
        code, _, problem = docker.run(command, self.name)
        if code and not any(text in problem.lower() for text in _ENDED):
            raise EnvironmentProblem(f"'docker {command}' failed, so processes would disturb each other: {problem}")


def _limits(cpus: Optional[frozenset[int]]) -> list[str]:
    """The CPUs, by default those of this process, and its limits; its control group does not apply to containers."""
    limits = read_cgroup_limits()
    options = [f"--cpuset-cpus={format_cpu_list(allowed_cpus() if cpus is None else cpus)}"]
    options += [f"--cpus={limits.cpus:g}"] if limits.cpus is not None else []
    return options + ([f"--memory={limits.memory}"] if limits.memory is not None else [])


def _gpus(job: Job) -> list[str]:
    """The GPUs of the machine for a job that uses one; other accelerators have no such option."""
    settings = (
        job.settings
        if isinstance(job, PrepareJob)
        else ()
        if isinstance(job, ReferenceJob)
        else (job.assignment.asked,)
    )
    return ["--gpus=all"] if any(setting.device.partition(":")[0] == "cuda" for setting in settings) else []


def _network(job: Job) -> list[str]:
    """No network, except for a container that may have to download weights."""
    offline = any(os.environ.get(name, "0") not in ("", "0") for name in OFFLINE)
    downloads = isinstance(job, PrepareJob) and any(each.weights in ("auto", "pretrained") for each in job.settings)
    return [] if downloads and not offline else ["--network=none"]

"""Containers whose calling process was killed (SIGKILL) and could not remove them.

A worker ends when the calling process does, but not while its container is paused, so the next call removes it. The
label of each container names the process that started it.
"""

from __future__ import annotations

import os
from pathlib import Path

from modelzoo.measure import docker

LABEL = "modelzoo.caller"
PREFIX = "modelzoo-"
"""The beginning of the name of each container that the suite starts."""
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def caller_label() -> str:
    """The label of containers that this process starts: its id, and the namespace in which that is its id."""
    return f"{LABEL}={os.getpid()}@{_namespace()}"


def remove_leftovers() -> None:
    """Remove the containers of callers in this namespace that have ended.

    Raises:
        EnvironmentProblem: there is no program ``docker``, or it does not end.
    """
    import psutil

    # An engine that does not answer is reported by the command that starts a container.
    _, listed, _ = docker.run(
        "ps", "--all", f"--filter=label={LABEL}", f'--format={{{{.Names}}}} {{{{.Label "{LABEL}"}}}}'
    )
    for line in listed.splitlines():
        name, _, caller = line.partition(" ")
        process, _, namespace = caller.partition("@")
        # An image may have such a label, too: only a container with a name of ours is one.
        if not (name.startswith(PREFIX) and process.isdecimal() and process.isascii()):
            continue
        if namespace == _namespace() and not psutil.pid_exists(int(process)):
            docker.run("rm", "--force", "--volumes", name)


def _namespace() -> str:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:  # not Linux
        return ""

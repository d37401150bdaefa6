"""A program ``docker`` that runs "containers" as processes of this machine, and records how it was called.

It has the commands that the suite uses: ``context inspect``, ``image inspect``, ``run``, ``ps``, ``pause``, ``unpause``
and ``rm``. A "container" has the environment that a real one would have. It sees copies of what is mounted, under
other paths than a real one would: jobs and messages are rewritten accordingly. It could open all other files of this
machine, too. The image's own workloads are those of the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
INPUTS = "/modelzoo/inputs/"
"""Below it, containers see files of this machine."""
HOST = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class FakeDocker:
    """The installed program: its images, which tests may change, and what was done with it."""

    home: Path

    def add(self, name: str, worker: str = "", **environment: str) -> None:
        """Add an image that sets these variables; ``worker`` is the script that it runs instead of a worker."""
        content = {"Id": f"sha256:{name}", "Config": {"Env": [f"{key}={value}" for key, value in environment.items()]}}
        (self.home / "images" / name.replace("/", "_")).write_text(json.dumps({**content, "worker": worker}))

    def say(self, host: str = HOST, problem: str = "") -> None:
        """Let the engine be on ``host``, and let every command fail with ``problem`` unless it is empty."""
        (self.home / "engine").write_text(json.dumps({"host": host, "problem": problem}))

    def calls(self, command: str) -> list[list[str]]:
        lines = (self.home / "calls").read_text().splitlines()
        return [words[1:] for words in map(json.loads, lines) if words[0] == command]

    def containers(self) -> list[str]:
        return sorted(path.name for path in (self.home / "containers").iterdir())


@contextmanager
def installed(home: Path) -> Iterator[FakeDocker]:
    """Create the program in ``home``, which a test puts on the PATH.

    What runs in its containers ends with the block, or with this process, however that happens: a container that is
    paused would stay for ever, since the suite's guardian need not know this program, and may be killed as well.
    """
    for name in ("images", "containers"):
        (home / name).mkdir(parents=True)
    (home / "calls").touch()
    program = home / "docker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {home} "$@"\n')
    program.chmod(0o755)
    docker = FakeDocker(home)
    docker.say()
    with subprocess.Popen([program, "watch"], stdin=subprocess.PIPE, start_new_session=True):
        yield docker


# The program itself


def fail(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(1)


def image(home: Path, name: str) -> dict[str, Any]:
    path = home / "images" / name.removeprefix("sha256:").replace("/", "_")
    if not path.is_file():
        fail(f"Error response from daemon: No such image: {name}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def run(home: Path, words: list[str]) -> int:
    """``docker run``: the container's process is a child of this one."""
    options: dict[str, list[str]] = {}
    while words[0].startswith("--"):
        key, _, value = words.pop(0).partition("=")
        options.setdefault(key, []).append(value)
    name, (container_image, *command) = options["--name"][0], words
    content = image(home, container_image)
    environment = variables(content, options.get("--env", []))
    inputs = home / "inputs" / name
    for text in options.get("--mount", []):
        show_copy(dict(part.split("=", 1) for part in text.split(",") if "=" in part), inputs)
    seen = {INPUTS: f"{inputs}/"}
    for text in options.get("--volume", []):
        volume, target, *_ = text.split(":")
        seen[f"{target}/"] = f"{home}/volumes/{volume}/"
    for key, value in environment.items():
        environment[key] = value.replace(INPUTS, f"{inputs}/")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    cache = seen["/modelzoo/cache/"].rstrip("/")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "MODELZOO_CACHE": cache, **environment}
    if content["worker"]:
        command = ["-c", content["worker"]]
    job = sys.stdin.buffer.readline()
    for path, real in seen.items():
        job = job.replace(f'"{path}'.encode(), f'"{real}'.encode())
    job = job.replace(b'"/modelzoo/', f'"{ROOT}/'.encode())
    process = subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    state = home / "containers" / name
    state.write_text(json.dumps({"pid": process.pid, "label": options["--label"][0]}))
    threading.Thread(target=pass_on, args=(job, process), daemon=True).start()
    assert process.stdout is not None
    for line in process.stdout:
        for path, real in seen.items():
            line = line.replace(real.encode(), path.encode())
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    code = process.wait()
    state.unlink(missing_ok=True)
    shutil.rmtree(inputs, ignore_errors=True)
    return code if code >= 0 else 128 - code


def variables(content: dict[str, Any], given: list[str]) -> dict[str, str]:
    """Those of an image, with what ``--env`` sets and removes."""
    environment = dict(text.split("=", 1) for text in content["Config"]["Env"])
    for text in given:
        key, equals, value = text.partition("=")
        if equals or key in os.environ:
            environment[key] = value if equals else os.environ[key]
        else:
            environment.pop(key, None)
    return environment


def show_copy(mount: dict[str, str], inputs: Path) -> None:
    """A bind mount: a copy of its source below ``inputs``."""
    source, target = Path(mount["source"]), inputs / mount["target"].removeprefix(INPUTS)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def pass_on(job: bytes, process: subprocess.Popen[bytes]) -> None:
    """Pass on standard input until it ends."""
    assert process.stdin is not None
    line = job
    while line:
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            return
        line = sys.stdin.buffer.readline()
    process.stdin.close()


def control(home: Path, command: str, name: str) -> None:
    """``docker pause``, ``unpause`` and ``rm --force --volumes``."""
    state = home / "containers" / name
    if not state.is_file():
        fail(f"Error response from daemon: No such container: {name}")
    pid = json.loads(state.read_text())["pid"]
    if command == "rm":
        with suppress(ProcessLookupError):  # it has ended just now
            os.killpg(pid, signal.SIGKILL)
        state.unlink(missing_ok=True)
    else:
        os.killpg(pid, signal.SIGSTOP if command == "pause" else signal.SIGCONT)


def show(home: Path, options: list[str]) -> None:
    """``docker ps`` with a filter and a format: name and label."""
    for state in sorted((home / "containers").iterdir()):
        label, _, value = json.loads(state.read_text())["label"].partition("=")
        assert [f"--filter=label={label}", f'--format={{{{.Names}}}} {{{{.Label "{label}"}}}}'] == options[-2:]
        print(state.name, value)


def watch(home: Path) -> None:
    """Wait until whoever has installed this program has ended, and end what is left in containers."""
    sys.stdin.read()
    for state in (home / "containers").glob("*"):
        if pid := json.loads(state.read_text())["pid"]:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def main(home: Path, words: list[str]) -> int:
    """Record the call and do what the real program would do."""
    if words == ["watch"]:
        watch(home)
        return 0
    engine = json.loads((home / "engine").read_text())
    kind = words[0] if words[0] in ("run", "ps", "pause", "unpause", "rm") else " ".join(words[:2])
    with (home / "calls").open("a") as file:
        file.write(json.dumps([kind, *words[len(kind.split()) :]]) + "\n")
    if kind == "context inspect":
        print(engine["host"])
    elif engine["problem"]:
        fail(engine["problem"])
    elif kind == "image inspect":
        print(json.dumps(image(home, words[-1])))
    elif kind == "run":
        return run(home, words[1:])
    elif kind == "ps":
        show(home, words[1:])
    else:
        for name in words[1:]:
            if not name.startswith("--"):
                control(home, kind, name)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

"""``action.yml``: what it lets whom do, and each of its steps as a shell runs it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT

from modelzoo.cli import app
from modelzoo.cli.app import explicit_values

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
REFUSE, INSTALL, MEASURE = ACTION["runs"]["steps"]
RECORDS = """#!/bin/sh
echo "$(basename "$0") $*" >>"$RECORD"
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/modelzoo" ;;
    "check "*) for word; do case $word in --output=*) echo the page >"${word#--output=}" ;; esac; done; exit "$CODE" ;;
esac
"""


class Runner:
    """A runner of GitHub with programs that only record how they are called."""

    def __init__(self, directory: Path) -> None:
        names = ("temp", "path", "calls", "summary", "output")
        self.temporary, programs, self._record, self.summary, self.output = (directory / name for name in names)
        self.temporary.mkdir()
        programs.mkdir()
        self._record.touch()
        (programs / "python3").write_text(RECORDS)
        (programs / "python3").chmod(0o755)
        self._environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "RECORD": str(self._record),
            "CODE": "0",
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_EVENT_NAME": "pull_request",
        }

    def run(self, step: dict[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a step as the runner does; expressions have the values of ``variables``, and else the defaults."""
        values = {name: _value(str(text)) for name, text in step.get("env", {}).items()}
        # What `shell: bash` means, by GitHub's documentation.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = {**self._environment, **values, **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        return self._record.read_text().splitlines()


def _value(expression: str) -> str:
    match = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", expression)
    if match:
        return str(ACTION["inputs"][match[1]].get("default", ""))
    return str(ROOT) if expression == "${{ github.action_path }}" else expression


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_no_input_becomes_a_part_of_a_script() -> None:
    """A value could contain commands: scripts get all values as variables. No other action is used, and no secret."""
    for step in (REFUSE, INSTALL, MEASURE):
        assert "${{" not in step["run"]
        assert (step["shell"], "uses" in step) == ("bash", False)
    assert not re.search(r"secrets\.|github\.token|GITHUB_TOKEN", (ROOT / "action.yml").read_text())


@pytest.mark.parametrize(("event", "code"), [("push", 0), ("pull_request_target", 2)])
def test_strangers_code_is_not_run_with_secrets(event: str, code: int, runner: Runner) -> None:
    """An event that gives a pull request the secrets of the repository ends the job."""
    done = runner.run(REFUSE, GITHUB_EVENT_NAME=event)
    assert (done.returncode, done.stdout.startswith("::error::")) == (code, bool(code))


def test_what_it_installs_for_itself_has_checksums(runner: Runner) -> None:
    """The suite of this revision, without torch: that comes with the builds that are compared."""
    done = runner.run(INSTALL)
    assert done.returncode == 0, done.stderr
    venv, *installs = runner.calls()
    assert venv == f"python3 -m venv {runner.temporary}/modelzoo"
    *locked, editable = installs
    assert all("--require-hashes" in call for call in locked)
    assert [re.sub(r".*/", "", call) for call in locked] == ["lock-base.txt", "uv.txt", "build.txt"]
    assert editable.endswith("--no-build-isolation --editable .")


def test_each_line_of_an_input_is_one_argument(runner: Runner) -> None:
    """Whatever it contains, and as the parser takes it; the exit code is that of the check."""
    runner.run(INSTALL)
    before = len(runner.calls())
    values = {
        "WORKLOADS": "bert\n./my model\n",
        "BASE": "torch==2.13.0",
        "HEAD": "torch==2.14.1\n$(touch hacked)",
        "HEAD_ENV": "A=1",
        "BUDGET": "10m",
        "OPTIONS": "--bf16\n",
        "CODE": "1",
    }
    done = runner.run(MEASURE, **values)
    assert done.returncode == 1, done.stderr
    page, result = runner.temporary / "modelzoo-check.md", runner.temporary / "modelzoo-check.json"
    options = (
        "--base=torch==2.13.0 --head=torch==2.14.1 --head=$(touch hacked) --head-env=A=1 --budget=10m "
        f"--fail-on=slower,invalid,wrong --bf16 --output={page} --json={result}"
    )
    assert runner.calls()[before:] == [f"modelzoo check bert ./my model {options}"]
    assert runner.summary.read_text() == "the page\n"
    assert runner.output.read_text() == f"page={page}\nresult={result}\nexit-code=1\n"
    words = ["check", "bert", "./my model", *options.replace("$(touch hacked)", "x").split()]
    assert app.make_parser().parse_args(explicit_values(words)).fail_on

"""``action.yml`` and docs/ci.md: what they let whom do, and each step and command."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT
from programs import program, ran

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
        program(programs / "python3", RECORDS)
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
        return ran(*command, environ={**self._environment, **values}, **variables)

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


PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
LISTINGS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PULL_REQUEST, GITLAB = map(yaml.safe_load, LISTINGS)
(JOB,) = PULL_REQUEST["jobs"].values()
STEPS: list[dict[str, Any]] = JOB["steps"]


def test_no_build_can_write_to_the_repository() -> None:
    """Its token can only read, is not left in the checkout, and no secret is named."""
    assert PULL_REQUEST["permissions"] == {"contents": "read"}
    assert "permissions" not in JOB
    (checkout,) = [step for step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False
    assert not re.search(r"secrets|github\.token|GH_TOKEN", yaml.safe_dump(PULL_REQUEST))


def test_actions_of_others_are_pinned_by_their_commit() -> None:
    """A tag can be moved to other code."""
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert len(used) == 3
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used)


def test_strangers_code_runs_on_a_machine_that_is_deleted() -> None:
    """Without a baseline on the machine that measures."""
    assert PULL_REQUEST[True] == "pull_request", "YAML 1.1 takes the key ``on`` for a truth value"
    assert JOB["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert not re.search(r"self-hosted|actions/cache|MODELZOO_CACHE|baseline/", yaml.safe_dump(PULL_REQUEST))


def test_the_commands_of_the_workflows_can_be_parsed() -> None:
    """By the shell, and those of the suite by its own parser; the action has these inputs."""
    for script in [*(step.get("run", "") for step in STEPS), *GITLAB["speed"]["script"]]:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        for line in script.splitlines():
            words = shlex.split(line)
            for command in {"check"} & set(words):
                assert app.make_parser().parse_args(words[words.index(command) :])
    (step,) = [step for step in STEPS if "/modelzoo@" in step.get("uses", "")]
    required = {name for name, declared in ACTION["inputs"].items() if declared.get("required")}
    assert required <= set(step["with"]) <= set(ACTION["inputs"])


@pytest.mark.skipif(
    not shutil.which("actionlint"),
    reason="actionlint is not on the PATH: go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
)
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    """In the workflows of the page, with this action in place of the published one."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    shutil.copy(ROOT / "action.yml", tmp_path)
    for number, text in enumerate(text for text in LISTINGS if "runs-on:" in text):
        (folder / f"{number}.yml").write_text(re.sub(r"OWNER/modelzoo@\w+", "./", text))
    done = ran("actionlint", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")

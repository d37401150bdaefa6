"""docs/ci.md: what its workflows let whom do, and that their commands are understood."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml
from places import ROOT

from modelzoo.cli import app

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
PULL_REQUEST, GITLAB, BRANCH = RECIPES
WORKFLOWS = [PULL_REQUEST, BRANCH]


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of its only job."""
    (job,) = workflow["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def triggers(workflow: dict[str, Any]) -> Any:
    """YAML 1.1 takes the key ``on`` for a truth value."""
    return workflow[True]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=["pull request", "branch"])
def test_no_build_can_write_to_the_repository(workflow: dict[str, Any]) -> None:
    """Its token can only read, is not left in the checkout, and no secret is named."""
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    checkouts = [step for step in steps_of(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert not re.search(r"secrets|github\.token|GH_TOKEN", yaml.safe_dump(workflow))


def test_actions_of_others_are_pinned_by_their_commit() -> None:
    """A tag can be moved to other code."""
    used = [step["uses"] for workflow in WORKFLOWS for step in steps_of(workflow) if "uses" in step]
    assert len(used) == 5
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used)


def test_strangers_code_runs_on_a_machine_that_is_deleted() -> None:
    """Without a baseline on the machine that measures."""
    assert triggers(PULL_REQUEST) == "pull_request"
    (job,) = PULL_REQUEST["jobs"].values()
    assert job["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert not re.search(r"self-hosted|actions/cache|MODELZOO_CACHE|baseline/", yaml.safe_dump(PULL_REQUEST))


def test_the_machine_that_measures_runs_a_trusted_branch_alone() -> None:
    """One build at a time, and the environment is not in the directory that a checkout empties."""
    assert triggers(BRANCH) == {"push": {"branches": ["main"]}}
    (job,) = BRANCH["jobs"].values()
    assert ("self-hosted" in job["runs-on"], job["concurrency"]) == (True, "benchmark")
    commands = "\n".join(step.get("run", "") for step in steps_of(BRANCH))
    assert 'scripts/torch-env 2.10.0 "$HOME/modelzoo-env"' in commands
    assert not re.search(r"\.venv|scripts/(run|setup)", commands)


def test_the_commands_of_the_workflows_can_be_parsed() -> None:
    """By the shell, and those of the suite by its own parser; their scripts exist, and the action has these inputs."""
    steps = [step for workflow in WORKFLOWS for step in steps_of(workflow)]
    for script in [*(step.get("run", "") for step in steps), *GITLAB["speed"]["script"]]:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        for line in script.splitlines():
            words = shlex.split(re.split(r" >> | \| ", re.sub('^compare="(.*)"$', r"\1", line))[0])
            for command in {"run", "check", "compare"} & set(words):
                assert app.make_parser().parse_args(words[words.index(command) :])
            assert all((ROOT / name).is_file() for name in re.findall(r"scripts/[\w-]+", line))
    (step,) = [step for step in steps if "/modelzoo@" in step.get("uses", "")]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    required = {name for name, declared in inputs.items() if declared.get("required")}
    assert required <= set(step["with"]) <= set(inputs)

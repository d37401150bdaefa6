"""docs/ci.md: the script that fails a build, and what its workflows let whom do."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_runs import make, result_of
from places import ROOT

from modelzoo.cli import app
from modelzoo.results import store
from modelzoo.setting import Setting

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
HEAD = Setting(python="head/bin/python")
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
WORKFLOWS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
PULL_REQUEST, BRANCH = WORKFLOWS


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


def test_strangers_code_runs_on_a_machine_that_is_deleted() -> None:
    """Without the history of the machine that measures."""
    assert triggers(PULL_REQUEST) == "pull_request"
    (job,) = PULL_REQUEST["jobs"].values()
    assert job["runs-on"] == "ubuntu-latest"
    assert not re.search(r"self-hosted|actions/cache|MODELZOO_CACHE|baseline/", yaml.safe_dump(PULL_REQUEST))


def test_the_machine_that_measures_runs_a_trusted_branch_alone() -> None:
    """One build at a time, and the environment is not in the directory that a checkout empties."""
    assert triggers(BRANCH) == {"push": {"branches": ["main"]}}
    (job,) = BRANCH["jobs"].values()
    assert ("self-hosted" in job["runs-on"], job["concurrency"]) == (True, "benchmark")
    commands = "\n".join(step.get("run", "") for step in steps_of(BRANCH))
    assert 'scripts/torch-env 2.10.0 "$HOME/modelzoo-env"' in commands
    assert not re.search(r"\.venv|scripts/(run|setup)", commands)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=["pull request", "branch"])
def test_the_commands_of_the_workflows_can_be_parsed(workflow: dict[str, Any]) -> None:
    """By the shell, and those of the suite by its own parser; their scripts exist."""
    for step in steps_of(workflow):
        subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)
        for line in step.get("run", "").splitlines():
            words = shlex.split(re.split(r" >> | \| ", line)[0])
            if "run" in words or "report" in words:
                start = min(index for index, word in enumerate(words) if word in ("run", "report"))
                assert app.make_parser().parse_args([word.replace("$both", "python=a,b") for word in words[start:]])
            for script in re.findall(r"scripts/[\w-]+", line):
                assert (ROOT / script).is_file()


@pytest.mark.parametrize(
    ("slower", "message"), [(1.0, ""), (1.02, ""), (1.1, "slower: toy fp32 python=head/bin/python\n"), (0.5, "")]
)
def test_the_script_fails_a_build_that_is_slower(slower: float, message: str, tmp_path: Path) -> None:
    """By more than 3 %; 2 % are SLOWER, but pass."""
    wobble = [0.002 * math.sin(number) for number in range(8)]
    runs = [make([1.0] * 4, round=number) for number in range(8)]
    runs += [make([slower * math.exp(each)] * 4, setting=HEAD, round=i, group=1) for i, each in enumerate(wobble)]
    store.write(result_of(*runs), tmp_path / "result.json")
    (script,) = SCRIPT
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1 if message else 0, message)

"""The commands in README and in the examples' README exist, and their options parse."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from places import ROOT

from modelzoo.cli import app
from modelzoo.cli.parser import explicit_bf16
from modelzoo.workload import discovery


def without_fences(text: str) -> str:
    """``text`` without what is printed between lines of backticks: code, and output of commands."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [
    line.split("#")[0].strip()
    for page in (ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md")))
    for line in re.findall(r"^    (\S.*)$", without_fences(page.read_text(encoding="utf-8")), re.MULTILINE)
    if not line.startswith("[TARGET]")
]


def test_there_are_commands() -> None:
    """The two main commands are found, so the page is read."""
    assert "./scripts/run" in COMMANDS
    assert "./scripts/test" in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_understood(command: str) -> None:
    """Each script exists, and modelzoo accepts the options of each command."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    if words[0] == "modelzoo":
        args = app.make_parser().parse_args(explicit_bf16(words[1:]))
        # What 'weights convert' takes is a file.
        for name in [] if "convert" in words else getattr(args, "workloads", []):
            assert discovery.find_workload(name)
    elif words[0] == "docker":
        image = next(place for place, word in enumerate(words) if word.startswith("IMAGE:"))
        assert words[1:image] == ["run", "--rm"]
        app.make_parser().parse_args(words[image + 1 :] or ["run"])
    elif words[0] == "python3":
        assert all((ROOT / name / words[1]).is_file() for name in discovery.STANDARD_WORKLOADS)
    elif words[0] in ("cd", "source"):
        assert words[0] == "source" or (ROOT / words[1]).is_dir()
    else:
        script = words[1] if words[0].endswith("python") else words[0]
        assert (ROOT / script).is_file()


PAGES = sorted(
    {path for pattern in ("*.md", "docs/*.md", "*/README.md", "examples/*/README.md") for path in ROOT.glob(pattern)}
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    """Every relative link of a page names a file or directory of the repository."""
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_files_of_a_page_exist(page: Path) -> None:
    """Each ``modelzoo/…`` path and ``modelzoo.…`` name between backticks is a file, a module or defined in a module."""
    text = without_fences(page.read_text(encoding="utf-8"))
    quoted = re.findall(r"`([^`\s]+)`", text)
    paths = [name for name in quoted if re.match(r"(modelzoo|tests|benchmarks|scripts|docs|pytorch_env)/", name)]
    assert [name for name in paths if not (ROOT / name).exists()] == []
    names = [name for name in quoted if re.fullmatch(r"modelzoo(\.\w+)+", name)]
    assert [name for name in names if not is_defined(name)] == []


def is_defined(name: str) -> bool:
    """Return whether ``name`` is a module, or an attribute of one."""
    place = ROOT.joinpath(*name.split("."))
    if place.is_dir() or place.with_suffix(".py").is_file():
        return True
    module, _, attribute = name.rpartition(".")
    return hasattr(importlib.import_module(module), attribute)

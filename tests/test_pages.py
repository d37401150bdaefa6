"""The commands of README, in English and Chinese, and of every page exist, their options parse, and figures agree."""

from __future__ import annotations

import importlib
import math
import re
import shlex
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from modelzoo.cli import app
from modelzoo.cli.app import explicit_values
from modelzoo.workload import InputRequest, discovery

PAGES = sorted(
    {path for pattern in ("*.md", "docs/*.md", "*/README.md", "examples/*/README.md") for path in ROOT.glob(pattern)}
)


def without_fences(text: str) -> str:
    """``text`` without what is printed between lines of backticks: code, and output of commands."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


SHELL = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("modelzoo", "docker", "python3", "cd", "source", "mkdir")
INLINE = re.compile(r"`((?:modelzoo|(?:\./)?scripts/[\w-]+)\s[^`]+|(?:python )?benchmarks/\w+\.py[^`]*)`")
NAMES = re.compile(
    r"modelzoo( weights| fleet)? [a-z]+( (--(vary|setting|price|redact)|-o( page\.html)?))?|modelzoo --version"
)
"""What sentences call a command or an option of it, without what it takes."""


def commands_of(page: Path) -> list[str]:
    """Indented lines, what in sentences and tables is more than a name, and lines of shell code with a program."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    prose = without_fences(text)
    lines = re.findall(r"^    (\S.*)$", prose, re.MULTILINE)
    inline = [" ".join(found.split()) for found in INLINE.findall(prose)]
    lines += [each for each in inline if not NAMES.fullmatch(each)]
    for block in SHELL.findall(text):
        lines += [line.strip() for line in block.splitlines() if starts_program(line)]
    return [re.split(r" +(?:#|&&|>)(?: |$)", line)[0].strip() for line in lines if not line.startswith("[")]


def starts_program(line: str) -> bool:
    """Return whether a line of shell code is one command that is known here, not a part of a loop."""
    word = next(iter(line.split()), "")
    return word in PROGRAMS or word.startswith(("scripts/", "./scripts/", ".venv/"))


# pytorch_env is built with programs of its own.
WITH_COMMANDS = [page for page in PAGES if page.parent.name != "pytorch_env"]
COMMANDS = sorted({(str(page.relative_to(ROOT)), each) for page in WITH_COMMANDS for each in commands_of(page)})


def test_there_are_commands() -> None:
    """In both notations, so the pages are read."""
    for page in ("README.md", "README.zh.md"):
        assert {(page, "./scripts/run"), (page, "modelzoo run resnet50 bert")} < {*COMMANDS}
    assert ("docs/timing.md", "modelzoo run resnet50 ssd maskrcnn bert --stages") in COMMANDS


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_command_is_understood(page: str, command: str) -> None:
    """Each script exists, and modelzoo accepts the options of each command."""
    words = list(dropwhile(lambda word: re.fullmatch(r"[A-Z_]+=.*", word), shlex.split(command)))
    if words[0] == "modelzoo":
        accepted(words[1:])
    elif words[0] == "docker":
        place = next(place for place, word in enumerate(words) if re.match(r"(IMAGE|modelzoo):", word))
        assert words[1:3] == ["run", "--rm"]
        inside = words[place + 1 :] or ["run"]
        if inside[0] not in ("python3", "bash", "cat"):
            accepted(inside)
    elif words[0] == "python3":
        assert all((ROOT / name / words[1]).is_file() for name in discovery.STANDARD_WORKLOADS)
    elif words[0] in ("cd", "git", "source", "mkdir"):
        assert words[0] != "cd" or (ROOT / words[1]).is_dir()
    else:
        script = words[1] if words[0].endswith("python") else words[0]
        assert (ROOT / script).is_file()


def accepted(words: list[str]) -> None:
    """Parse a command line, and find the workloads that it names, unless the reader is to write them."""
    args = app.make_parser().parse_args(explicit_values([word for word in words if word != "--help"]))
    # What 'weights convert' takes is a file.
    for name in [] if "convert" in words else getattr(args, "workloads", []):
        assert name.startswith(("./", "../", "/")) or discovery.find_workload(name)


def test_workload_of_readme_is_complete() -> None:
    """Its code runs, and its inputs suit its model."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert code is not None and len(code[1].splitlines()) <= 20
    names: dict[str, Any] = {}
    exec(code[1], names)
    workload = names["WORKLOAD"]
    inputs = workload.inputs(InputRequest(batch=2, seed=0, path=None, options={}))
    assert workload.build({}).eval()(*inputs.args).shape == (2, 1000)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Every relative link of a page names a file or directory of the repository, and a heading that the page has."""
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8"))
    for link, heading in links:
        if "://" not in link:
            target = page.parent / link if link else page
            assert target.exists(), link
            assert not heading or heading in anchors(target), f"{link}#{heading}"


def anchors(page: Path) -> set[str]:
    """Return what GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", without_fences(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


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
    place = ROOT.joinpath(*name.split("."))
    if place.is_dir() or place.with_suffix(".py").is_file():
        return True
    module, _, attribute = name.rpartition(".")
    return hasattr(importlib.import_module(module), attribute)


PAGE = (ROOT / "docs" / "torch-versions.md").read_text(encoding="utf-8")
CELL = re.compile(r"\*{0,2}([\d.]+)× \[([\d.]+), ([\d.]+)\]\*{0,2}")
QUANTILE = 1.96


def cells() -> dict[str, list[tuple[float, float, float]]]:
    """The speedups over the pinned release with their intervals, by release, of all tables."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    columns: list[str] = []
    for line in PAGE.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if line.startswith("| model"):
            columns = [title.rpartition(" ")[2] for title in parts]
        elif columns and line.startswith("|"):
            for release, part in zip(columns, parts):
                match = CELL.fullmatch(part)
                if match:
                    found.setdefault(release, []).append(tuple(map(float, match.groups())))  # type: ignore[arg-type]
        else:
            columns = []
    return found


def geometric_mean(speedups: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Their geometric mean with its 95 % interval; each has the variance that its own interval shows."""
    centre = sum(math.log(value) for value, _, _ in speedups) / len(speedups)
    errors = [math.log(high / low) / (2 * QUANTILE) for _, low, high in speedups]
    half = QUANTILE * math.sqrt(sum(error**2 for error in errors)) / len(speedups)
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def test_the_geometric_means_follow_from_the_cells() -> None:
    """Of all cells of a release together, as the page prints them."""
    found = cells()
    assert found
    for release, speedups in found.items():
        value, low, high = geometric_mean(speedups)
        assert f"{release}: {value:.2f}× [{low:.2f}, {high:.2f}]" in PAGE

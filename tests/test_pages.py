"""The commands of README, in English and Chinese, and of every page exist, their options parse, and figures agree.

What docs/workload.md declares can be measured and judged, and what docs/compare.md, report.md and ci.md compare runs.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import shlex
import sys
from collections.abc import Callable
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest
from fake_runs import MACHINE, judgement
from instances import served
from places import ROOT
from programs import ran
from proven_results import BF16, FP32, session_of, written

from modelzoo.cli import app
from modelzoo.cli.app import explicit_values
from modelzoo.frozen import replace
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import store
from modelzoo.results.refusals import ALLOWABLE
from modelzoo.setting import Setting
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
    assert len(COMPARING) > 20


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


WORKLOAD_PAGE = (ROOT / "docs" / "workload.md").read_text()
LISTINGS = re.findall(r"```python\n(.*?)```", WORKLOAD_PAGE, re.DOTALL)
STEPS = [line.strip() for line in WORKLOAD_PAGE.splitlines() if line.startswith("    modelzoo ")]
SHORT = {
    "run": ["--processes", "1", "--warmup", "0", "--iterations", "2", "--no-audit", "--threads", "1"],
    "validate": ["--limit", "3", "--threads", "1"],
    "weights": [],
}
"""Options that shorten a command without changing what it does."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run a command of the page, shortened, beside a listing, in a directory of its own; its standard output."""

    def run(command: str, listing: str, *more: str) -> str:
        words = [*command.split()[1:], *(("--limit", "3") if "--validate" in command else ())]
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / "workload.py").write_text(listing)
        called = (sys.executable, "-m", "modelzoo", *words, *SHORT[words[0]], *more)
        done = ran(*called, cwd=tmp_path, PYTHONPATH=str(ROOT))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_listings_are_python_that_uses_public_modules() -> None:
    """Every listing is valid, and imports only what the page recommends."""
    for listing in LISTINGS:
        modules = {node.module for node in ast.walk(ast.parse(listing)) if isinstance(node, ast.ImportFrom)}
        assert modules <= {"modelzoo.workload", "modelzoo.validity", "torchvision.models", "transformers"}
    assert [command.split()[1] for command in STEPS] == ["run", "weights", "validate", "run", "weights", "run"]


def test_the_second_listing_is_judged(run: Callable[..., str]) -> None:
    """Its checkpoint is listed, and without network the verdict is the one that the page shows."""
    run(STEPS[1], LISTINGS[1])
    (line,) = run(STEPS[2], LISTINGS[1]).splitlines()
    assert re.match(r"\[VALID\] mobilenet tensor_error - [\d.]+ NUMERIC ONLY \(random weights: ", line)


def test_a_pickle_is_converted_and_used_by_the_first_listing(run: Callable[..., str], tmp_path: Path) -> None:
    """The commands for a checkpoint that an older torch refuses."""
    import torch
    from torchvision.models import mobilenet_v3_small

    torch.save(mobilenet_v3_small(weights=None).state_dict(), tmp_path / "mine.pth")
    run(STEPS[4], LISTINGS[0])
    assert run(STEPS[5], LISTINGS[0], "--precision", "fp32").startswith("[TARGET] mobilenet Time ")


def test_options_are_declared_as_the_page_says(tmp_path: Path) -> None:
    """The third listing, with the fields of the first in place of the dots."""
    from modelzoo.workload.discovery import load_workload

    fields = LISTINGS[0].partition("WORKLOAD = Workload(\n")[2].rpartition(")")[0].strip().rstrip(",")
    head = LISTINGS[0].partition("WORKLOAD")[0].replace("import Inputs,", "import Inputs, Option,")
    (tmp_path / "workload.py").write_text(head + LISTINGS[2].replace("...", fields))
    workload = load_workload(tmp_path)
    assert workload.option_values({"pixels": "160"}) == {"pixels": 160}


COMPARED = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("compare.md", "report.md", "ci.md")}
COMPARING = [
    line
    for page in COMPARED.values()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith(("modelzoo compare", "modelzoo report"))
]
"""Those that measure are parsed above, as the commands of all pages are."""
LEVELS = [
    ("toy", FP32, 0.1),
    ("toy", BF16, 0.05),
    ("toy", Setting(threads=2), 0.1),
    ("toy", Setting(mode="compile", threads=2), 0.08),
]
PRICES = "name,per_hour,currency,date\nx86,1.80,CNY,2026-11-01\narm,1.10,CNY,2026-11-01\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with every file that the pages name; all sides are equally fast."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for day, name in enumerate(("monday", "tuesday", "new", "candidate"), 1):
        store.write(session_of(LEVELS, day), Path(f"{name}.json"))
    for day, name in enumerate(("xeon", "epyc", "yitian"), 11):
        store.write(session_of(LEVELS, day, machine=replace(MACHINE, cpu=name)), Path(f"{name}.json"))
    for day, name in enumerate(("baseline", "candidate"), 5):
        written(Path(name), *(session_of(LEVELS, 3 * day + number) for number in range(3)))
    for hour, name in enumerate(("x86", "arm")):
        store.write(served([40.0, 40.1, 39.9, 40.0], f"2026-03-20T0{hour}:00:00+00:00"), Path(f"{name}.json"))
        entry = replace(judgement(ValidityVerdict.VALID), group=0)
        asked = (SettingRequest(entry.workload, entry.requested),)
        judged = Result(("modelzoo", "validate"), "2026-03-20T00:00:00+00:00", asked, validity=(entry,))
        store.write(judged, Path(f"{name}-accuracy.json"))
    Path("prices.csv").write_text(PRICES, encoding="utf-8")
    written(Path("results"), session_of(LEVELS, 21), session_of(LEVELS, 22))
    store.write(session_of(LEVELS, 23), Path("results/FILE.json"))
    return tmp_path


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("command", COMPARING)
def test_the_commands_of_the_pages_run(command: str) -> None:
    """A comparison of equals passes."""
    words = explicit_values(shlex.split(command, comments=True)[1:])
    words = [each for word in words for each in (map(str, sorted(Path().glob(word))) if "*" in word else [word])]
    assert app.main(words) == 0
    assert "-o" not in words or Path(words[words.index("-o") + 1]).stat().st_size


def test_everything_that_can_be_allowed_is_described() -> None:
    """And nothing else."""
    page = COMPARED["compare.md"]
    table = page[page.index("## What is not comparable") : page.index("`--allow WHAT`")]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == [str(each) for each in ALLOWABLE]

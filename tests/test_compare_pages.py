"""Every command of docs/compare.md, docs/report.md and docs/ci.md runs, with the exit code that the pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from fake_runs import MACHINE, judgement
from instances import served
from places import ROOT
from proven_results import BF16, FP32, session_of, written

from modelzoo.cli import app
from modelzoo.cli.app import explicit_values
from modelzoo.frozen import replace
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import store
from modelzoo.results.refusals import ALLOWABLE
from modelzoo.setting import Setting

PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("compare.md", "report.md", "ci.md")}
COMMANDS = [
    line
    for page in PAGES.values()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
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


def test_the_pages_have_commands() -> None:
    """So they are read."""
    assert sum(line.startswith("modelzoo compare") for line in COMMANDS) > 15
    assert sum(line.startswith("modelzoo report") for line in COMMANDS) > 5


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_pages_run(command: str) -> None:
    """A comparison of equals passes; commands that measure are only parsed."""
    words = explicit_values(shlex.split(command, comments=True)[1:])
    words = [each for word in words for each in (map(str, sorted(Path().glob(word))) if "*" in word else [word])]
    if words[0] in ("compare", "report"):
        assert app.main(words) == 0
        assert "-o" not in words or Path(words[words.index("-o") + 1]).stat().st_size
    else:
        assert app.make_parser().parse_args(words)


def test_everything_that_can_be_allowed_is_described() -> None:
    """And nothing else."""
    page = PAGES["compare.md"]
    table = page[page.index("## What is not comparable") : page.index("`--allow WHAT`")]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == [str(each) for each in ALLOWABLE]

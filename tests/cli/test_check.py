"""``modelzoo check``: two builds in, a page and an exit code out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import Call, called
from places import ROOT
from proven_results import checked

from modelzoo.cli import run as session
from modelzoo.cli.options import Measurement
from modelzoo.cli.selection import Jobs
from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.results.store import ResultFile
from modelzoo.setting import Setting
from modelzoo.views.progress import LiveProgress

MLP = ROOT / "examples" / "mlp"
ROUNDS = [0.999, 1.001, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999]
Measure = Callable[[Result], list[tuple[Jobs, Measurement]]]


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Make a call store what it is told, instead of measuring; return a function that does, and gives its calls."""
    calls: list[tuple[Jobs, Measurement]] = []

    def prepare(result: Result) -> list[tuple[Jobs, Measurement]]:
        def measure(jobs: Jobs, how: Measurement, stored: ResultFile, progress: LiveProgress) -> None:
            calls.append((jobs, how))
            stored.set_payload(result.latency)
            for run in result.runs:
                stored.add(replace(run, workload="mlp", requested=jobs[0][1][run.group]))

        monkeypatch.setattr(session, "measure_session", measure)
        return calls

    return prepare


def checking(*words: object) -> Call:
    """A check of this interpreter against itself."""
    return called("check", MLP, "--base", "default", "--head", "default", *words)


def toy(slower: float = 1.0) -> Result:
    return checked({"toy": [slower * each for each in ROUNDS]})


def test_the_page_goes_to_stdout_and_says_what_was_asked(measures: Measure) -> None:
    """The result is stored, as that of 'modelzoo run' is, and can be reported."""
    calls = measures(toy())
    code, out, err = checking()
    assert code == 0
    assert "mlp fp32: head and base are equally fast" in out and "base: default" in out
    path = Path(err.splitlines()[-1].removeprefix("result: "))
    assert len(store.read(path).runs) == 16
    ((((_, (base, head)),), how),) = calls
    assert base == head == Setting(options=base.options)
    assert how.effort.budget == 300.0


@pytest.mark.parametrize(
    ("slower", "words", "code"),
    [
        (1.0, (), 0),
        (1.02, (), 1),
        (1.02, ("--fail-on", "slower:3%"), 0),
        (1.05, ("--fail-on", "not-comparable"), 0),
    ],
)
def test_the_exit_code_is_that_of_the_conditions(
    slower: float, words: tuple[str, ...], code: int, measures: Measure
) -> None:
    """By default, a row that is slower fails."""
    measures(toy(slower))
    found = checking(*words)
    assert found.code == code
    assert ("FAILED slower" in found.out) is (code == 1)


def test_a_page_in_a_file_is_markdown_and_ci_systems_get_their_formats(measures: Measure, tmp_path: Path) -> None:
    """The formats of ``compare``, with the ratio of the rounds; the suffix of a file decides."""
    measures(toy(1.05))
    for name, start in (("check.md", "### head compared"), ("summary", "### head compared"), ("x.csv", "base,other,")):
        assert checking("-o", tmp_path / name)[:2] == (1, "")
        assert (tmp_path / name).read_text().startswith(start)
    (found,) = json.loads(checking("--format", "json").out)["comparisons"]
    assert (found["rows"][0]["basis"], found["rows"][0]["outcome"], found["notes"]) == ("rounds", "SLOWER", [])
    assert '<failure type="slower"' in checking("--format", "junit").out


def test_a_side_that_crashes_fails_whatever_the_conditions(measures: Measure) -> None:
    """A build that cannot run the model is not one that passes."""
    result, failure = toy(), {"report": None, "error": "it crashed", "error_kind": WorkerError.__name__}
    measures(replace(result, runs=tuple(replace(run, **failure) if run.group else run for run in result.runs)))
    code, out, _ = checking("--fail-on", "ambiguous")
    assert code == 2
    assert "all processes of head failed: it crashed" in out


def test_an_interrupted_check_keeps_and_shows_what_it_has(measures: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the other commands that measure do."""
    measures(toy())
    complete = session.measure_session

    def interrupted(*args: object) -> None:
        complete(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "measure_session", interrupted)
    code, out, err = checking()
    assert (code, "head compared with base" in out) == (130, True)
    assert "modelzoo: interrupted; 16 finished runs are in " in err


def test_a_dry_run_makes_no_environment(measures: Measure) -> None:
    """It needs no uv, and no network."""
    calls = measures(toy())
    code, out, _ = called("check", MLP, "--base", "torch==2.13.0", "--head", "torch==2.14.1", "--dry-run")
    assert (code, calls, "5 min" in out) == (0, [], True)


@pytest.mark.slow
def test_a_planted_switch_of_implementation_is_named(tmp_path: Path) -> None:
    """With the kernels of both sides and the shape: oneDNN is held to AVX2 on one side. Takes about 2 minutes."""
    page = tmp_path / "check.md"
    words = ("--weights", "random", "--processes", "1", "--warmup", "1", "--iterations", "2", "-o", page)
    variable = ("--head-env", "ONEDNN_MAX_CPU_ISA=AVX2")
    called("check", "resnet50", "--base", sys.executable, "--head", "default", *variable, *words)
    text = page.read_text()
    assert "### Kernels of resnet50 fp32" in text
    (first, *_) = [line for line in text.splitlines() if line.startswith("| conv ")]
    assert "avx2" in first
    assert "×" in first

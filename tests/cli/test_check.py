"""``modelzoo check``: two builds in, a page and an exit code out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from interleaved_sides import checked
from places import ROOT

from modelzoo.cli import app, check
from modelzoo.cli.options import Measurement
from modelzoo.cli.selection import Jobs
from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.results.store import ResultFile
from modelzoo.views.progress import LiveProgress

MLP = str(ROOT / "examples" / "mlp")
ROUNDS = [0.999, 1.001, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999]
Measure = Callable[[Result], list[tuple[Jobs, Measurement]]]


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Make a call store what it is told, instead of measuring; return a function that does, and gives its calls."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    calls: list[tuple[Jobs, Measurement]] = []

    def prepare(result: Result) -> list[tuple[Jobs, Measurement]]:
        def measure(jobs: Jobs, how: Measurement, stored: ResultFile, progress: LiveProgress) -> None:
            calls.append((jobs, how))
            stored.set_payload(result.latency)
            for run in result.runs:
                stored.add(replace(run, workload="mlp", requested=jobs[0][1][run.group]))

        monkeypatch.setattr(check, "measure_session", measure)
        return calls

    return prepare


def called(*words: str, workload: str = MLP) -> int:
    """The exit code of a check of this interpreter against itself."""
    return app.main(["check", workload, "--base", "default", "--head", "default", *words])


def toy(slower: float = 1.0) -> Result:
    """A check of a toy that takes longer."""
    return checked({"toy": [slower * each for each in ROUNDS]})


def test_the_page_goes_to_stdout_and_says_what_was_asked(measures: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is stored, as that of 'modelzoo run' is, and can be reported."""
    calls = measures(toy())
    assert called() == 0
    captured = capsys.readouterr()
    assert "mlp fp32: head and base are equally fast" in captured.out
    assert "base: default" in captured.out
    path = Path(captured.err.splitlines()[-1].removeprefix("result: "))
    assert len(store.read(path).runs) == 16
    ((jobs, how),) = calls
    ((_, (base, head)),) = jobs
    assert base == head
    assert (base.precision, base.python) == ("fp32", None)
    assert how.effort.budget == 300.0


@pytest.mark.parametrize(
    ("slower", "words", "code"),
    [
        (1.0, (), 0),
        (1.02, (), 1),
        (1.02, ("--fail-on", "slower:3%"), 0),
        (1.05, ("--fail-on", "slower:3%"), 1),
        (1.05, ("--fail-on", "not-comparable"), 0),
    ],
)
def test_the_exit_code_is_that_of_the_conditions(
    slower: float, words: tuple[str, ...], code: int, measures: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default, a row that is slower fails."""
    measures(toy(slower))
    assert called(*words) == code
    assert ("FAILED slower" in capsys.readouterr().out) is (code == 1)


def test_a_page_in_a_file_is_markdown_and_ci_systems_get_their_formats(
    measures: Measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The formats of ``compare``, with the ratio of the rounds; the suffix of a file decides."""
    measures(toy(1.05))
    for name, start in (("check.md", "### head compared"), ("summary", "### head compared"), ("x.csv", "base,other,")):
        assert called("-o", str(tmp_path / name)) == 1
        assert (tmp_path / name).read_text().startswith(start)
    assert capsys.readouterr().out == ""
    assert called("--format", "json") == 1
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (found["rows"][0]["basis"], found["rows"][0]["outcome"], found["notes"]) == ("rounds", "SLOWER", [])
    assert called("--format", "junit") == 1
    assert '<failure type="slower"' in capsys.readouterr().out


def test_a_side_that_crashes_fails_whatever_the_conditions(
    measures: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build that cannot run the model is not one that passes."""
    result = toy()
    failed = [
        replace(run, report=None, error="it crashed", error_kind=WorkerError.__name__) if run.group else run
        for run in result.runs
    ]
    measures(replace(result, runs=tuple(failed)))
    assert called("--fail-on", "ambiguous") == 2
    assert "all processes of head failed: it crashed" in capsys.readouterr().out


def test_one_round_shows_no_spread(measures: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    """And decides nothing, however large the difference."""
    measures(checked({"toy": [2.0]}))
    assert called() == 0
    assert "mlp fp32: 1 round; how much rounds differ is not known." in capsys.readouterr().out


def test_an_interrupted_check_keeps_and_shows_what_it_has(
    measures: Measure, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the other commands that measure do."""
    measures(toy())
    complete = check.measure_session

    def interrupted(*args: object) -> None:
        complete(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "measure_session", interrupted)
    assert called() == 130
    captured = capsys.readouterr()
    assert "head compared with base" in captured.out
    assert "modelzoo: interrupted; 16 finished runs are in " in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--python", "x"), "--python: name the two sides with --base and --head"),
        (("--image", "zoo:a"), "--image: name the two sides with --base and --head"),
        (("--fail-on", "more:3%"), "--fail-on 'more:3%' does not fit --metric latency; write slower:3%"),
        (("--head-env", "1"), "--head-env '1' must have the form NAME=VALUE"),
        (("-o", "/nonexistent/a.md"), "cannot write /nonexistent/a.md: there is no directory /nonexistent"),
        (
            ("--json", "/dev/full"),
            "cannot write /dev/full: No space left on device; name another file with --json FILE",
        ),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_measured(
    words: tuple[str, ...], message: str, measures: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is an environment made."""
    calls = measures(toy())
    assert called(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"modelzoo: error: {message}")
    assert (error.count("\n"), calls) == (1, [])


def test_a_directory_of_results_that_cannot_be_written_to_is_no_matter_of_the_page(
    measures: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ``-o`` names the page; ``--json`` names the result."""
    calls = measures(toy())
    (tmp_path / "file").touch()
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "file"))
    assert called() == 2
    assert "File exists; name another file with --json FILE" in capsys.readouterr().err
    assert calls == []


def test_both_sides_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no build to compare with by default."""
    with pytest.raises(SystemExit) as ended:
        app.main(["check", "--head", "default"])
    assert ended.value.code == 2
    assert "the following arguments are required: --base" in capsys.readouterr().err


def test_a_dry_run_makes_no_environment(measures: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no uv, and no network."""
    calls = measures(toy())
    assert app.main(["check", MLP, "--base", "torch==2.13.0", "--head", "torch==2.14.1", "--dry-run"]) == 0
    assert calls == []
    assert "5 min" in capsys.readouterr().out


@pytest.mark.slow
def test_a_planted_switch_of_implementation_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernels of both sides and the shape: oneDNN is held to AVX2 on one side. Takes about 2 minutes."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    page = tmp_path / "check.md"
    words = ("--weights", "random", "--processes", "1", "--warmup", "1", "--iterations", "2", "-o", str(page))
    variable = ("--head-env", "ONEDNN_MAX_CPU_ISA=AVX2")
    app.main(["check", "resnet50", "--base", sys.executable, "--head", "default", *variable, *words])
    text = page.read_text()
    assert "### Kernels of resnet50 fp32" in text
    (first, *_) = [line for line in text.splitlines() if line.startswith("| conv ")]
    assert "avx2" in first
    assert "×" in first

"""What the options of measurement and judgement are parsed to."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from modelzoo.cli import options as arguments
from modelzoo.cli.parser import Parser
from modelzoo.errors import UsageError
from modelzoo.plan import Effort, Plan
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def parsed(*words: str) -> argparse.Namespace:
    """What these words say about the measurement."""
    parser = Parser()
    arguments.add_plan(parser)
    return parser.parse_args(words)


def test_what_is_not_given_is_decided_from_what_is_measured() -> None:
    """The number of processes, how long each samples, and no limit for the whole."""
    args = parsed()
    assert arguments.make_plan(args) == Plan()
    assert arguments.make_effort(args) == Effort(None, 0.05, None)


def test_every_option_of_the_measurement_is_passed_on() -> None:
    """Fractions and durations as numbers."""
    args = parsed("--processes", "4", "--max-seconds", "3", "--iterations", "9", "--warmup", "2")
    assert arguments.make_plan(args) == Plan(2, 9, 3.0)
    assert arguments.make_effort(args).processes == 4
    args = parsed("--margin", "2.5%", "--budget", "10m")
    assert arguments.make_effort(args) == Effort(None, 0.025, 600.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--margin", "500%"), "--margin must be over 0 % and under 100 %, not 500 %; write 5% or 0.05"),
        (("--margin", "0%"), "--margin must be over 0 % and under 100 %, not 0 %"),
        (("--budget", "0s"), "--budget must be over 0, not 0 s"),
        (("--processes", "0"), "--processes must be 1 or more, not 0"),
        (("--max-seconds", "0"), "--max-seconds must be"),
    ],
)
def test_a_measurement_that_makes_no_sense_is_refused(words: tuple[str, ...], message: str) -> None:
    """The message says what would."""
    args = parsed(*words)
    with pytest.raises(UsageError, match=message):
        arguments.make_plan(args)
        arguments.make_effort(args)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--margin", "wide"), "argument --margin: 'wide' is not a fraction; write 5% or 0.05"),
        (("--margin", "5"), "argument --margin: '5' may mean 5 % or 500 %; write it with its sign: 5%"),
        (("--budget", "10"), "argument --budget: '10' is not a duration; write it with its unit: 90s, 10m or 2h"),
    ],
)
def test_a_value_without_its_unit_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line that names the option."""
    with pytest.raises(SystemExit):
        parsed(*words)
    assert message in capsys.readouterr().err


def test_output_goes_beside_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results have a place of their own (an image's volume), so have pictures and plots; --artifacts wins."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    parser = argparse.ArgumentParser()
    parser.set_defaults(timeout=None)
    arguments.add_validity(parser)
    judging = arguments.make_judging(parser.parse_args([]), MLP)
    assert judging.output == tmp_path / "results" / "output" / "mlp"
    judging = arguments.make_judging(parser.parse_args(["--artifacts", str(tmp_path / "own")]), MLP)
    assert judging.output == tmp_path / "own" / "mlp"
    monkeypatch.delenv("MODELZOO_RESULTS")
    assert arguments._artifacts(None, MLP) == MLP.directory / "output"
    monkeypatch.setattr(discovery, "PACKAGE", MLP.directory.parent)
    assert arguments._artifacts(None, MLP) == discovery.CHECKOUT / "results" / "output" / "mlp"

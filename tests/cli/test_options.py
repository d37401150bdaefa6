"""What the options of measurement and judgement are parsed to."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.cli import options as arguments
from modelzoo.cli.options import Accuracy, Measurement
from modelzoo.cli.parser import Parser
from modelzoo.cli.session import make_judging
from modelzoo.errors import UsageError
from modelzoo.option import read_options
from modelzoo.plan import Effort, Plan
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


def parsed(*words: str) -> Measurement:
    """What these words say about the measurement."""
    parser = Parser()
    arguments.add_measurement(parser)
    return read_options(parser.parse_args(words), Measurement)


def test_what_is_not_given_is_decided_from_what_is_measured() -> None:
    """The number of processes, how long each samples, and no limit for the whole."""
    assert parsed() == Measurement()
    assert Measurement().effort == Effort(None, 0.05, None)


def test_every_option_of_the_measurement_is_passed_on() -> None:
    """Fractions and durations as numbers."""
    how = parsed("--processes", "4", "--max-seconds", "3", "--iterations", "9", "--warmup", "2", "--no-audit")
    assert how == Measurement(Effort(4), Plan(2, 9, 3.0), no_audit=True)
    assert parsed("--margin", "2.5%", "--budget", "10m").effort == Effort(None, 0.025, 600.0)


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
    with pytest.raises(UsageError, match=message):
        parsed(*words)


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
    assert make_judging(Accuracy(), MLP).output == tmp_path / "results" / "output" / "mlp"
    assert make_judging(Accuracy(artifacts=str(tmp_path / "own")), MLP).output == tmp_path / "own" / "mlp"
    monkeypatch.delenv("MODELZOO_RESULTS")
    assert make_judging(Accuracy(), MLP).output == MLP.directory / "output"
    monkeypatch.setattr(discovery, "PACKAGE", MLP.directory.parent)
    assert make_judging(Accuracy(), MLP).output == discovery.CHECKOUT / "results" / "output" / "mlp"

"""What the options of measurement and judgement are parsed to."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.cli import options as arguments
from modelzoo.cli.options import Accuracy, Measurement
from modelzoo.cli.parser import Parser
from modelzoo.cli.session import make_judging
from modelzoo.option import read_options
from modelzoo.plan import Effort, Plan
from modelzoo.workload import discovery

MLP = discovery.load_workload(discovery.CHECKOUT / "examples" / "mlp")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", Measurement(Effort(None, 0.05, None))),
        (
            "--processes 4 --max-seconds 3 --iterations 9 --warmup 2 --no-audit",
            Measurement(Effort(4), Plan(2, 9, 3.0), no_audit=True),
        ),
        ("--margin 2.5% --budget 10m", Measurement(Effort(None, 0.025, 600.0))),
    ],
)
def test_every_option_of_the_measurement_is_passed_on(words: str, expected: Measurement) -> None:
    """What is not given is decided from what is measured."""
    parser = Parser()
    arguments.add_measurement(parser)
    assert read_options(parser.parse_args(words.split()), Measurement) == expected


def test_output_goes_beside_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results have a place of their own (an image's volume), so have pictures and plots; --artifacts wins."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path / "results"))
    assert make_judging(Accuracy(), MLP).output == tmp_path / "results" / "output" / "mlp"
    assert make_judging(Accuracy(artifacts=str(tmp_path / "own")), MLP).output == tmp_path / "own" / "mlp"
    monkeypatch.delenv("MODELZOO_RESULTS")
    assert make_judging(Accuracy(), MLP).output == MLP.directory / "output"
    monkeypatch.setattr(discovery, "PACKAGE", MLP.directory.parent)
    assert make_judging(Accuracy(), MLP).output == discovery.CHECKOUT / "results" / "output" / "mlp"

"""What ``modelzoo load`` refuses before anything is started."""

from __future__ import annotations

import pytest

from modelzoo.cli.app import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "give either --rate R, or --find with --slo"),
        ("--rate 10 --find --slo p99=50ms", "give either --rate R, or --find"),
        ("--find", "--find needs the bound to be met: --slo p99=50ms"),
        ("--rate 0", "--rate must be over 0"),
        ("--rate nan", "--rate must be over 0"),
        ("--scenario offline --rate 10", "--scenario offline has neither a rate nor a bound"),
        ("--scenario single-stream --batch 4", "single-stream has one request at a time"),
        ("--rate 10 --queries 0", "--queries must be 1 or more, not 0"),
        ("--rate 10 --instances 0", "--instances must be 1 or more, not 0"),
        ("--rate 10 --duration 0s", "--duration must be over 0"),
        ("--rate 10 --threads 2", "--threads follows from the cores of an instance"),
        ("--rate 10 --device cuda", "--device cuda is not supported"),
        ("--rate 10 --instances 5000 --cores-per-instance 1", "instances of 1 core"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, with exit code 2."""
    assert main(["load", "examples/mlp", *words.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", ["--slo 50ms", "--max-wait 5", "--duration 10", "--scenario multi-stream"])
def test_values_need_their_form(words: str) -> None:
    """A time without a unit would be guessed."""
    with pytest.raises(SystemExit, match="2"):
        main(["load", "examples/mlp", "--rate", "10", *words.split()])

"""An option that ended is refused."""

from __future__ import annotations

import pytest

from modelzoo.cli.app import main


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (
            "load examples/mlp --rate 10 --loadgen",
            "--loadgen: MLPerf LoadGen drives no instances any more; use --scena",
        ),
    ],
)
def test_an_option_that_ended_names_its_replacement(
    words: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    error = capsys.readouterr().err
    assert instead in error
    assert error.count("\n") == 1

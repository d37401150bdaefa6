"""An option that ended is refused."""

from __future__ import annotations

import pytest

from modelzoo.cli.app import main


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("run examples/mlp --in-flight 2", "--in-flight: one batch is in the pipeline at a time; --stages times"),
        ("run examples/mlp --trace=t.json", "--trace: no traces are written any more; --profiling"),
        ("throughput examples/mlp --soak 2h", "--soak: there are no soak tests any more; give a longer --seconds"),
        ("load examples/mlp --rate 10 --loadgen", "--loadgen: MLPerf LoadGen drives nothing any more; use --scenario"),
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

"""Options that ended are refused in one line that names what to do instead."""

from __future__ import annotations

import pytest

from modelzoo.cli.app import main
from modelzoo.cli.parser import ENDED, Ended


@pytest.mark.parametrize(
    "each",
    [each for each in ENDED if each.command.startswith("modelzoo") and each.name.startswith("--")],
    ids=lambda each: each.name,
)
def test_an_option_that_ended_names_what_to_do_instead(each: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its value, and before anything else is looked at."""
    words = each.command.split()[1:]
    for option in ([each.name, "nonsense"], [f"{each.name}=3"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "no-such-workload", *option])
        (line,) = capsys.readouterr().err.splitlines()
        assert (ended.value.code, each.instead in line) == (2, True)

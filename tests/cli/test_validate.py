"""What ``modelzoo validate`` prints of a judgement."""

from __future__ import annotations

import io

from places import DATA

from modelzoo.cli.validate import show
from modelzoo.document.console import PlainConsole
from modelzoo.frozen import replace
from modelzoo.records.run import ValidityEntry
from modelzoo.results import store


def shown(entry: ValidityEntry) -> str:
    """What is printed in a narrow terminal."""
    out = io.StringIO()
    show(entry, PlainConsole(file=out, width=40))
    return out.getvalue()


def test_an_error_is_one_line() -> None:
    """However long it is and whatever it contains, as all errors are."""
    (entry,) = store.read(DATA / "results" / "bert.json").validity
    assert "Checks" in shown(entry)
    error = f"[bold]no[/] data {'x' * 80}\nat all"
    assert shown(replace(entry, report=None, error=error)) == (
        f"modelzoo: error: bert: [bold]no[/] data {'x' * 80}\\nat all\n"
    )

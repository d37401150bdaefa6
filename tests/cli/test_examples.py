"""The examples of ``--help``: each is a command line that parses."""

from __future__ import annotations

import shlex

import pytest

from modelzoo.cli import app
from modelzoo.cli.parser import EXAMPLES, epilog, explicit_bf16
from modelzoo.cli.setting_options import parse_axis, parse_settings
from modelzoo.workload.discovery import CHECKOUT

OWN_SCRIPTS = ("performance.py", "validate.py")


@pytest.mark.parametrize("line", [line for examples in EXAMPLES.values() for line, _ in examples])
def test_every_example_parses(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its options exist, and its settings have the right form; a workload's own scripts answer for theirs."""
    program, *words = shlex.split(line.replace("torchrun … -m modelzoo", "modelzoo"))
    if program == "python3":
        script, *words = words
        entry = {"performance.py": app.performance, "validate.py": app.validate}[script]
        with pytest.raises(SystemExit) as ended:
            entry(str(CHECKOUT / "resnet50" / script), [*words, "--help"])
        assert ended.value.code == 0
        help_text = capsys.readouterr().out
        assert all(word.partition("=")[0] in help_text for word in words if word.startswith("--"))
        return
    assert program == "modelzoo"
    args = app.make_parser().parse_args(explicit_bf16(words))
    for axis in getattr(args, "vary", []):
        parse_axis(axis)
    parse_settings(getattr(args, "setting", []))


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_every_command_ends_with_its_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, as they are written."""
    arguments = ["--help"] if command == "modelzoo" else [command, "--help"]
    with pytest.raises(SystemExit):
        if command in OWN_SCRIPTS:
            entry = app.performance if command == "performance.py" else app.validate
            entry(str(CHECKOUT / "bert" / command), ["--help"])
        app.main(arguments)
    assert capsys.readouterr().out.endswith(f"\n\n{epilog(command)}\n")


def test_every_command_has_examples() -> None:
    """A new command needs some, too."""
    commands = app.make_parser()._actions[-1].choices
    assert isinstance(commands, dict)
    assert set(EXAMPLES) == {"modelzoo", *commands, *OWN_SCRIPTS}


def test_a_long_line_has_its_explanation_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of the help is wider than 100 columns."""
    monkeypatch.setitem(EXAMPLES, "x", (("short", "a"), ("long " * 15, "b")))
    assert epilog("x").splitlines() == ["examples:", "  short  # a", f"  {'long ' * 15}", "         # b"]
    assert max(len(line) for command in EXAMPLES for line in epilog(command).splitlines()) <= 100

"""The parser of a command."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from modelzoo.cli.parser import Parser, explicit_bf16


def test_a_bare_bf16_does_not_take_the_next_word() -> None:
    """``--bf16 bert`` names a workload, ``--bf16=cast`` a method."""
    assert explicit_bf16(["--bf16", "bert", "--bf16=cast"]) == ["--bf16=auto", "bert", "--bf16=cast"]


def test_arguments_are_added_once_and_for_the_command_that_is_called() -> None:
    """Of two commands, one is used, twice."""
    added = []

    def add(parser: argparse.ArgumentParser) -> None:
        added.append(parser.prog)
        parser.add_argument("--fast", action="store_true")

    parser = Parser(prog="p")
    commands = parser.add_subparsers(dest="command")
    for name in ("run", "report"):
        commands.add_parser(name, add_arguments=add)
    assert parser.parse_args(["run", "--fast"]).fast
    assert not parser.parse_args(["run"]).fast
    assert added == ["p run"]


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """It says where to find the help."""
    with pytest.raises(SystemExit) as ended:
        Parser(prog="p").parse_args(["--fast"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "p: error: unrecognized arguments: --fast (see p --help)\n"


def test_a_command_starts_without_the_modules_of_others() -> None:
    """``--help`` needs no statistics, workloads or settings, ``compare`` no workloads and nothing that measures."""
    code = "import sys; from modelzoo.cli import app; sys.argv[1:] and app.make_parser().parse_args(sys.argv[1:]); "
    code += "print(*(name for name in sys.modules if name.startswith('modelzoo.')))"
    for words, unused in (
        ([], ("stats", "workload", "setting", "results", "measure")),
        (["compare", "a.json", "b.json"], ("workload", "measure")),
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        loaded = {name.split(".")[1] for name in done.stdout.split()}
        assert loaded.isdisjoint(unused)

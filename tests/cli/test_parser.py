"""The parser: errors in one line, values with units, completion, and examples of the help."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from argparse import ArgumentTypeError

import pytest

from modelzoo.cli import app, parser
from modelzoo.cli.app import explicit_values
from modelzoo.cli.measuring import FLEET
from modelzoo.cli.parser import EXAMPLES, Parser
from modelzoo.cli.session import tolerances
from modelzoo.cli.setting_options import parse_axis, parse_settings
from modelzoo.option import duration, fraction, short_time, whole_numbers
from modelzoo.validity.checks import check_tolerances
from modelzoo.workload.discovery import CHECKOUT


def test_a_bare_bf16_does_not_take_the_next_word() -> None:
    """``--bf16 bert`` names a workload, ``--bf16 cast`` a method; likewise a switch."""
    words = ("--bf16 bert", "--channels-last bert", "--bf16 cast --channels-last on bert", "--channels-last off bert")
    parsed = [app.make_parser().parse_args(explicit_values(["run", *each.split()])) for each in words]
    assert [args.workloads for args in parsed] == [["bert"]] * 4
    assert [(args.bf16, args.channels_last) for args in parsed] == [
        ("auto", False),
        (None, True),
        ("cast", True),
        (None, False),
    ]


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
    """``--help`` needs no statistics, workloads or settings, ``compare`` no workloads and nothing that measures.

    The options of ``run`` need nothing that it calls.
    """
    code = "import sys; from modelzoo.cli import app; sys.argv[1:] and app.make_parser().parse_args(sys.argv[1:]); "
    code += "print(*(name for name in sys.modules if name.startswith('modelzoo.')))"
    for words, unused in (
        ([], ("stats", "workload", "setting", "results", "measure")),
        (["compare", "a.json", "b.json"], ("workload", "measure")),
        (["run"], ("measure", "validity", "views", "results", "document")),
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        loaded = {name.split(".")[1] for name in done.stdout.split()}
        assert loaded.isdisjoint(unused)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("0.5s", 0.5), (".5m", 30), ("0s", 0)],
)
def test_a_duration_is_given_with_its_unit(text: str, seconds: float) -> None:
    """In seconds, minutes or hours."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "10d", "-5s", "1e3s", "10mm", "nan", "inf", "5s!"])
def test_anything_else_is_no_duration(text: str) -> None:
    """A number alone could be seconds or minutes."""
    with pytest.raises(ArgumentTypeError, match="is not a duration; write it with its unit: 90s, 10m or 2h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("2.5 %", 0.025), (".1", 0.1), ("300%", 3.0), ("0.99", 0.99)]
)
def test_a_fraction_may_be_a_percentage(text: str, value: float) -> None:
    """Whether it is in range depends on the option."""
    assert fraction(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "'3' may mean 3 % or 300 %; write it with its sign: 3%"),
        ("1", "'1' may mean 1 % or 100 %; write it with its sign: 1%"),
        ("2.5", "'2.5' may mean 2.5 % or 250 %; write it with its sign: 2.5%"),
    ],
)
def test_a_bare_number_from_1_on_is_no_fraction(text: str, message: str) -> None:
    """3 is more often meant as 3 % than as 300 %, and a gate that is a hundred times as wide passes everything."""
    with pytest.raises(ArgumentTypeError) as caught:
        fraction(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "%", "-5%", "five", "5%%", "nan", "inf", "1e-2"])
def test_anything_else_is_no_fraction(text: str) -> None:
    """The message shows both ways to write it."""
    with pytest.raises(ArgumentTypeError, match="is not a fraction; write 5% or 0.05"):
        fraction(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5ms", 5e-3), ("1.5s", 1.5), ("250us", 250e-6), ("250µs", 250e-6), ("0ms", 0.0)]
)
def test_a_short_time_is_given_with_its_unit(text: str, seconds: float) -> None:
    """In milliseconds, microseconds or seconds."""
    assert short_time(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5m", "5 ms", "-5ms", "infs", "1h"])
def test_anything_else_is_no_short_time(text: str) -> None:
    """Minutes are not short."""
    with pytest.raises(ArgumentTypeError, match="is not a time; write it with its unit: 5ms"):
        short_time(text)


@pytest.mark.parametrize(("text", "numbers"), [("1", (1,)), ("1,2, 4", (1, 2, 4)), ("2,2", (2,))])
def test_a_list_of_whole_numbers(text: str, numbers: tuple[int, ...]) -> None:
    """Each once."""
    assert whole_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "1,,2", "-1", "1.5", "a", "²"])
def test_anything_else_is_no_such_list(text: str) -> None:
    """The message has an example."""
    with pytest.raises(ArgumentTypeError, match="such as 1,2,4"):
        whole_numbers(text)


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The completion script of a shell."""
    with pytest.raises(SystemExit) as ended:
        app.main(["--print-completion", shell])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", parser.SHELLS)
def test_a_script_is_generated_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It knows the commands, their options and the workloads."""
    text = script(shell, capsys)
    assert all(word in text for word in ("validate", "channels-last", "maskrcnn", "tcmalloc"))


def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    """As a user would see it."""
    text = script("bash", capsys)
    lines = [("val", "validate"), ("run --marg", "--margin"), ("run mask", "maskrcnn"), ("run --mode co", "compile")]
    for typed, expected in lines:
        words = ["modelzoo", *typed.split()]
        code = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_modelzoo; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{text}\n{code}"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]


def test_without_shtab_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an optional package."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as ended:
        app.main(["--print-completion", "bash"])
    assert ended.value.code == 2
    assert "install shtab" in capsys.readouterr().err


OWN_SCRIPTS = ("performance.py", "validate.py")


@pytest.mark.parametrize("line", re.findall(r"^  (\w.*)", "".join(EXAMPLES.values()), re.MULTILINE))
def test_every_example_parses(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its options exist, and its settings have the right form; a workload's own scripts answer for theirs."""
    program, *words = shlex.split(line, comments=True)
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
    args = app.make_parser().parse_args(explicit_values(words))
    for axis in getattr(args, "vary", []):
        parse_axis(axis)
    parse_settings(getattr(args, "setting", []))
    check_tolerances(tolerances(getattr(args, "tolerance", [])))


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_every_command_ends_with_its_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, as they are written."""
    arguments = ["--help"] if command == "modelzoo" else [*command.split(), "--help"]
    with pytest.raises(SystemExit):
        if command in OWN_SCRIPTS:
            entry = app.performance if command == "performance.py" else app.validate
            entry(str(CHECKOUT / "bert" / command), ["--help"])
        app.main(arguments)
    assert capsys.readouterr().out.endswith(f"\n\nexamples:{EXAMPLES[command]}\n")


SCRIPTS = {"performance.py": app.performance, "validate.py": app.validate}
SHORT = [
    *("run", "validate", "throughput", "load", "tune", "check", "fleet run", "fleet throughput", "fleet validate"),
    *SCRIPTS,
]
"""Commands with more options than most calls need."""


def shown(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, set[str]]:
    """The help of a command, 100 columns wide, and the options that it explains."""
    with pytest.raises(SystemExit) as ended:
        if command in SCRIPTS:
            SCRIPTS[command](str(CHECKOUT / "bert" / command), [option])
        app.main([*command.split(), option])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    return text, set(re.findall(r"^  (?:-\w(?: FILE)?, )?(--[\w-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", SHORT)
def test_a_short_help_is_for_most_calls(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 18 options on 70 lines; --help-all has all of them."""
    monkeypatch.setenv("COLUMNS", "100")
    (text, short), (_, full) = (shown(command, option, capsys) for option in ("--help", "--help-all"))
    assert short < full
    assert len(short) <= 18
    assert text.count("\n") <= 70
    assert {"--help-all", "--bf16"} - ({"--bf16"} if command == "tune" else set()) <= short
    assert "--bf16[=METHOD]" in text or command == "tune"
    assert "--primitive-cache" in full
    assert "--primitive-cache" not in text


@pytest.mark.parametrize("command", [name for name in (*app.COMMANDS, "fleet") if name not in SHORT])
def test_other_helps_are_short_by_themselves(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They need no second one."""
    assert shown(command, "--help", capsys)[0].count("\n") <= 50


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_help_of_a_workloads_script_has_its_own_options(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what the script does with which model, and how its options are given."""
    text, options = shown(script, "--help", capsys)
    assert {"--size", "--sequence", "--bf16", "--output"} <= options
    assert f"usage: {script} " in text
    assert "BERT question answering" in text
    assert f"python3 {script} --bf16" in text


def test_a_mistake_that_is_found_late_names_the_commands_help(capsys: pytest.CaptureFixture[str]) -> None:
    """As argparse's own errors do; a file that cannot be read is no mistake of the command line."""
    for words, end in (
        (["run", "nosuch"], " (see modelzoo run --help)\n"),
        (["fleet", "run", "nosuch", "--scheduler", "tcp://127.0.0.1:1"], " (see modelzoo fleet run --help)\n"),
        (["report", "/nonexistent.json"], ": No such file or directory\n"),
    ):
        assert app.main(words) == 2
        assert capsys.readouterr().err.endswith(end)


def test_every_command_has_examples() -> None:
    """A new command needs some, too."""
    in_fleet = {f"fleet {name}" for name in FLEET}
    assert set(EXAMPLES) == {"modelzoo", *app.COMMANDS, *in_fleet, *OWN_SCRIPTS}


def test_a_long_line_has_its_explanation_below() -> None:
    """No line of the help is wider than 100 columns."""
    assert max(map(len, "".join(EXAMPLES.values()).splitlines())) <= 100

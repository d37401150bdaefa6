"""The parser: values with units, completion, and examples of the help."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import partial

import pytest
from calls import called

from modelzoo.cli import app, parser
from modelzoo.cli.app import explicit_values
from modelzoo.cli.measuring import latency_bound
from modelzoo.cli.parser import EXAMPLES
from modelzoo.cli.run import tolerances
from modelzoo.cli.setting_options import parse_axis, parse_settings
from modelzoo.option import duration, fraction, short_time, whole_numbers
from modelzoo.validity.checks import check_tolerances
from modelzoo.workload.discovery import CHECKOUT, STANDARD_WORKLOADS, load_workload


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


@pytest.mark.parametrize(
    ("parse", "values"),
    [
        (duration, {"90s": 90, "10m": 600, "2h": 7200, "1h30m": 5400, "0.5s": 0.5, ".5m": 30, "0s": 0}),
        (fraction, {"5%": 0.05, "0.05": 0.05, "2.5 %": 0.025, ".1": 0.1, "300%": 3.0, "0.99": 0.99}),
        (short_time, {"5ms": 5e-3, "1.5s": 1.5, "250us": 250e-6, "250µs": 250e-6, "0ms": 0.0}),
        (whole_numbers, {"1": (1,), "1,2, 4": (1, 2, 4), "2,2": (2,)}),
    ],
)
def test_values_are_given_with_their_units(parse: Callable[[str], object], values: dict[str, object]) -> None:
    """Times as numbers of seconds, percentages as fractions, whose range depends on the option, each number once."""
    assert {text: parse(text) for text in values} == values


@pytest.mark.parametrize(
    ("parse", "message", "texts"),
    [
        (
            duration,
            "is not a duration; write it with its unit: 90s, 10m or 2h",
            ("", "10", "m", "10 m", "10d", "-5s", "1e3s", "nan"),
        ),
        (fraction, "is not a fraction; write 5% or 0.05", ("", "%", "-5%", "5%%", "nan", "1e-2")),
        (fraction, "may mean 1 % or 100 %; write it with its sign: 1%", ("1",)),
        (short_time, "is not a time; write it with its unit: 5ms", ("", "5", "5m", "5 ms", "-5ms", "infs", "1h")),
        (whole_numbers, "such as 1,2,4", ("", "0", "1,,2", "-1", "1.5", "a", "²")),
        (latency_bound, "such as p99=50ms", ("", "p99", "99=50ms", "p99=50", "p99=-5ms", "p99=5m")),
        (latency_bound, "the percentile must be over 0 and under 100", ("p100=5ms", "p0=5ms", "p99=0ms")),
    ],
)
def test_anything_else_is_refused_with_an_example(
    parse: Callable[[str], object], message: str, texts: tuple[str, ...]
) -> None:
    """A number alone could be seconds or minutes; 3 is more often meant as 3 % than as 300 %."""
    for text in texts:
        with pytest.raises(ArgumentTypeError, match=message):
            parse(text)


def test_bash_completes_commands_options_and_values() -> None:
    """As a user would see it; there are scripts for other shells, too."""
    scripts = {}
    for shell in parser.SHELLS:
        scripts[shell] = printed("modelzoo", "--print-completion", shell)
        assert all(word in scripts[shell] for word in ("validate", "channels-last", "maskrcnn", "tcmalloc"))
    lines = [("val", "validate"), ("run --marg", "--margin"), ("run mask", "maskrcnn"), ("run --mode co", "compile")]
    for typed, expected in lines:
        words = ["modelzoo", *typed.split()]
        code = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_modelzoo; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{scripts['bash']}\n{code}"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]


def test_without_shtab_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an optional package."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, _, err = called("--print-completion", "bash")
    assert (code, "install shtab" in err) == (2, True)


SCRIPTS = {"performance.py": app.performance, "validate.py": app.validate}


def printed(command: str, *words: str) -> str:
    """What a command, or a workload's own script, prints before it exits."""
    own = partial(SCRIPTS[command], str(CHECKOUT / "bert" / command)) if command in SCRIPTS else app.main
    before = [] if command in SCRIPTS else command.removeprefix("modelzoo").split()
    code, out, err = called(*before, *words, entry=own)
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("line", re.findall(r"^  (\w.*)", "".join(EXAMPLES.values()), re.MULTILINE))
def test_every_example_parses(line: str) -> None:
    """Its options exist, and its settings have the right form; a workload's own scripts answer for theirs."""
    program, *words = shlex.split(line, comments=True)
    if program == "python3":
        help_text = printed(*words, "--help")
        assert all(word.partition("=")[0] in help_text for word in words if word.startswith("--"))
        return
    assert program == "modelzoo"
    args = app.make_parser().parse_args(explicit_values(words))
    for axis in getattr(args, "vary", []):
        parse_axis(axis)
    parse_settings(getattr(args, "setting", []))
    check_tolerances(tolerances(getattr(args, "tolerance", [])))


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_every_command_ends_with_its_examples(command: str) -> None:
    """Line by line, as they are written."""
    assert printed(command, "--help").endswith(f"\n\nexamples:{EXAMPLES[command]}\n")


@pytest.mark.parametrize(
    "command",
    [
        *("run", "validate", "throughput", "load", "tune", "check", "fleet run", "fleet throughput", "fleet validate"),
        *SCRIPTS,
    ],
)
def test_a_short_help_is_for_most_calls(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 18 options on 70 lines of 100 columns; --help-all has all of them."""
    monkeypatch.setenv("COLUMNS", "100")
    helps = [printed(command, option) for option in ("--help", "--help-all")]
    short, full = (set(re.findall(r"^  (?:-\w(?: FILE)?, )?(--[\w-]+)", text, re.MULTILINE)) for text in helps)
    assert short < full
    assert len(short) <= 18 and helps[0].count("\n") <= 70
    assert "--help-all" in short and "--primitive-cache" in full - short
    assert "--bf16[=METHOD]" in helps[0] or command == "tune"


@pytest.mark.parametrize("name", [*STANDARD_WORKLOADS, "llm", "examples/mlp"])
def test_the_help_of_a_workload_names_its_own_options(name: str) -> None:
    """And its title."""
    work = load_workload(CHECKOUT / name)
    shown = called("--help", entry=partial(app.performance, str(CHECKOUT / name / "performance.py"))).out
    assert all(f"--{option.name}" in shown for option in work.options)
    assert work.title in " ".join(shown.split())

"""Every string of every record is declared, and nothing that is declared private is left."""

from __future__ import annotations

import argparse
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from example_results import EXAMPLES
from printed import printed
from record_strategies import is_record
from shown_documents import several_workloads

from modelzoo.cli import app, report
from modelzoo.cli.parser import Parser
from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.doctor import DoctorReport
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.workload import WeightsKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet
from modelzoo.views.page.privacy import FIELDS, Privacy, mapped
from modelzoo.views.page.redaction import redacted, redacted_record, redacted_text
from modelzoo.workload.discovery import find_workload, load_workload

CANARY = "cAnArY"
PLANTED = {
    "absolute": f"/srv/{CANARY} one, two/three four.bin",
    "home": f"~/{CANARY} dir/x",
    "relative": f"my {CANARY}/sub dir/x.bin",
    "bare": f"{CANARY}.bin",
    "word": CANARY,
    "windows": f"C:\\Users\\{CANARY} B\\x y",
}
"""A name or a path, in each form in which a command line may have it."""


def holds_strings(kind: Any) -> bool:
    return kind is str or any(map(holds_strings, get_args(kind)))


def records_of(kind: Any, found: dict[type, list[str]]) -> dict[type, list[str]]:
    """Every record that ``kind`` is made of, with its fields that can hold strings."""
    for part in get_args(kind):
        records_of(part, found)
    is_plain = not isinstance(kind, type) or get_origin(kind) is not None or issubclass(kind, Enum)
    if not is_plain and is_record(kind) and kind not in found:
        hints = get_type_hints(kind)
        found[kind] = [name for name, hint in hints.items() if holds_strings(hint)]
        for hint in hints.values():
            records_of(hint, found)
    return found


def test_every_string_of_every_record_is_declared() -> None:
    """Whoever adds a field decides whether strangers may read it; no declaration is left over."""
    found = records_of(DoctorReport, records_of(Result, {}))
    assert {kind.__name__: set(names) for kind, names in found.items() if names} == {
        kind.__name__: set(names) for kind, names in FIELDS.items()
    }


def filled(kind: Any) -> Any:
    """A value of the annotation ``kind`` in which nothing is empty."""
    if kind in (Setting, ResolvedSetting):
        return kind(input="x", python="x", options={"o": "x"})
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Union:
        return filled(next(part for part in parts if part is not type(None)))
    if origin is tuple:
        return tuple(filled(part) for part in parts if part is not Ellipsis)
    if origin is dict:
        return {"k": filled(parts[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if is_record(kind):
        return kind(**{name: filled(hint) for name, hint in get_type_hints(kind).items()})
    return {str: "x", bytes: b"x", int: 1, float: 1.0, bool: False}[kind]


def planted(record: Any, secret: str) -> Any:
    """A copy of ``record`` with ``secret`` in every private field, and in the middle of every text."""

    def plant(privacy: Privacy, text: str) -> str:
        if privacy is Privacy.TEXT:
            return f"cannot read {secret}: damaged; see '{secret}', X_Y={secret}"
        return f"--data={secret}" if privacy is Privacy.WORD and text.startswith("-") else secret

    return mapped(record, plant, lambda _, copy: copy)


@pytest.mark.parametrize("kind", [kind for kind in FIELDS if set(FIELDS[kind].values()) != {Privacy.SHOWN}])
@pytest.mark.parametrize("secret", [PLANTED["absolute"], PLANTED["home"], PLANTED["windows"]])
def test_no_private_field_of_a_record_reaches_its_redacted_json(kind: type, secret: str) -> None:
    """Paths have blanks and commas; texts quote them, and name them with and without quotation marks."""
    record = filled(kind)
    if kind is Setting or kind is ResolvedSetting:
        record = replace(record, weights="x")
    record = replace(record, kind=WeightsKind.PATH) if hasattr(record, "path") and hasattr(record, "seed") else record
    before = planted(record, secret)
    assert CANARY.encode() in encode_json(before)
    assert CANARY.encode() not in encode_json(redacted_record(before))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("form", PLANTED)
def test_no_private_field_of_a_result_is_shown(name: str, form: str) -> None:
    """Neither in its redacted JSON nor, whole or as a part, in the terminal."""
    result = planted(EXAMPLES[name], PLANTED[form])
    assert CANARY.encode() in encode_json(result)
    found = redacted(result)
    assert CANARY.encode() not in encode_json(found)
    args = argparse.Namespace(details=True, kernels=True)
    assert CANARY not in printed(report._blocks(found, args), width=200, details=True)


@pytest.mark.parametrize("name", ["mlp", "several", "tune", "throughput", "load"])
def test_no_private_field_of_a_result_is_in_its_page(name: str) -> None:
    """A page without plots would be faster to make, but plots have labels."""
    found = redacted(planted(EXAMPLES[name], PLANTED["absolute"]))
    page = html(build.page([ResultSet("Result 1", (StoredResult("session 1", found),))], Question()))
    assert CANARY not in page


def test_every_word_that_an_option_can_have_stays_in_the_command() -> None:
    """What the suite offers as a choice says nothing of the user."""
    words = {"resnet50", "ssd", "maskrcnn", "bert", "modelzoo"}
    for name in ("run", "validate", "throughput", "load", "tune", "fleet"):
        parser = Parser(prog=name)
        app._add_arguments(name, parser)
        for action in parser._actions:
            is_commands = isinstance(action, argparse._SubParsersAction)
            words |= {*action.option_strings, *(map(str, action.choices or ()) if not is_commands else ())}
    for name in ("resnet50", "ssd", "maskrcnn", "bert"):
        for option in load_workload(find_workload(name)).options:
            words |= {f"--{option.name}", *map(str, option.choices or ())}
    given = (*sorted(words - {"performance.py"}), "p99=50ms", "1,2,4", "0.5", "cuda:1", "1h30m")
    assert redacted(Result(given, "2026")).command == given


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("--data", "acme"), ("--data", "PATH-1")),
        (("--image", "acme:5000/zoo"), ("--image", "PATH-1")),
        (("--store", "10.1.2.3:29400"), ("--store", "PATH-1")),
        (("--python=/home/joe/my env, 2/bin/python",), ("--python=PATH-1",)),
        (("--vary", "python=acme-1,acme-2"), ("--vary", "python=PATH-1")),
        (("--setting", "mode=compile weights='/x/a b.pt'"), ("--setting", "mode=compile weights=PATH-1")),
        (("-oacme.json", "--label", "acme"), ("PATH-1", "--label", "PATH-2")),
        (("--setting", "@acme.txt"), ("--setting", "PATH-1")),
    ],
)
def test_what_is_no_word_of_the_suite_is_hidden(given: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """Whatever the option: a bare name may be a file's."""
    assert redacted(Result(("modelzoo", "run", *given), "2026")).command == ("modelzoo", "run", *shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /srv/a b, c/x.bin: No such file", "cannot read PATH-1: No such file"),
        ("cannot read 'data/my cat.jpg': damaged", "cannot read 'PATH-1': damaged"),
        ("LD_PRELOAD=/opt/a b/c.so is set; unset it", "LD_PRELOAD=(hidden); unset it"),
        ("wrote ~/a b/c (3 files)", "wrote PATH-1)"),
        ("12 images/s and/or 'fp32'", "12 images/s and/or 'fp32'"),
    ],
)
def test_where_a_path_ends(text: str, shown: str) -> None:
    """At a colon or a semicolon, at the end of a quotation or of the line; what is lost is better than what is left."""
    assert redacted_text(text) == shown


def test_a_name_that_the_result_has_is_hidden_in_its_texts() -> None:
    """The image, the interpreter's environment, and what an option named without a directory."""
    command = ("modelzoo", "run", "toy", "--data", "acme set")
    error = "acme set/val is empty; acme-registry/zoo was not found, nor was torch-of-acme; fp32 of toy failed"
    run = several_workloads().runs[-1]
    failed = replace(run, error=error, requested=Setting(image="acme-registry/zoo:1"))
    other = replace(run, requested=Setting(python="/envs/torch-of-acme/bin/python"))
    requested = (SettingRequest("toy", Setting()),)
    found = redacted(Result(command, "2026", requested, runs=(failed, other)))
    assert found.runs[0].error == "PATH-1; IMAGE-1 was not found, nor was PATH-2; fp32 of toy failed"

"""Nothing that a record does not declare as public is left."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from fake_runs import WEIGHTS, make, result_of, warning
from places import DATA
from printed import page_of, printed
from record_strategies import all_records, is_record
from shown_documents import EXAMPLES, several_workloads

from modelzoo.cli import measuring
from modelzoo.cli.parser import Parser
from modelzoo.document.written import html
from modelzoo.frozen import ARGUMENT, MESSAGE, Public, replace
from modelzoo.records.codec import encode_json
from modelzoo.records.run import Result, SettingRequest, Thumbnail, ValidityEntry
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.views import kinds
from modelzoo.views.redaction import mapped, redacted, redacted_record, redacted_text
from modelzoo.warning import WarningCode, warning_for
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


class Marked(msgspec.Struct, frozen=True):
    """A field without a mark, and one with two."""

    shown: Public
    plain: str
    mixed: tuple[str | Public, ...]
    named: dict[str, Public]


def test_a_string_without_a_mark_is_hidden() -> None:
    """Whoever adds a field decides if strangers may read it; whoever does not think of it hides it."""
    found = redacted_record(Marked("a", "b", ("b", "c"), {"d": "e"}))
    assert found == Marked("a", "hidden-1", ("hidden-1", "hidden-2"), {"d": "e"})


def filled(kind: Any) -> Any:
    """A value of the annotation ``kind`` in which nothing is empty."""
    if kind in (Setting, ResolvedSetting):
        return kind(input="x", python="x", options={"o": "x"})
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return filled(next(part for part in parts if part is not type(None)))
    if origin is tuple:
        return tuple(filled(part) for part in parts if part is not Ellipsis)
    if origin in (dict, Mapping):
        return {"k": filled(parts[1])}
    if origin is Literal:
        return parts[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if is_record(kind):
        return kind(**{name: filled(hint) for name, hint in get_type_hints(kind).items()})
    return {str: "x", bytes: b"x", int: 1, float: 1.0, bool: False, msgspec.Raw: msgspec.Raw(b"1")}[kind]


def planted(record: Any, secret: str) -> Any:
    """A copy of ``record`` with ``secret`` in every private field, and in the middle of every text."""

    def plant(mark: str, text: str) -> str:
        if mark == MESSAGE:
            return f"cannot read {secret}: damaged; see '{secret}', X_Y={secret}"
        return f"--data={secret}" if mark == ARGUMENT and text.startswith("-") else secret

    return mapped(record, plant)


@pytest.mark.parametrize("kind", [each for each in all_records() if not issubclass(each, Enum)])
def test_no_private_field_of_a_record_reaches_its_redacted_json(kind: type) -> None:
    """Paths have blanks and commas; texts quote them, and name them with and without quotation marks."""
    record = filled(kind)
    if kind is Setting or kind is ResolvedSetting:
        record = replace(record, weights="x")
    record = replace(record, kind=WeightsKind.PATH) if hasattr(record, "path") and hasattr(record, "seed") else record
    for form in ("absolute", "home", "windows"):
        assert CANARY.encode() not in encode_json(redacted_record(planted(record, PLANTED[form])))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("form", PLANTED)
def test_no_private_field_of_a_result_is_shown(name: str, form: str) -> None:
    """Neither in its redacted JSON nor, whole or as a part, in the terminal."""
    result = planted(EXAMPLES[name], PLANTED[form])
    assert CANARY.encode() in encode_json(result)
    found = redacted(result)
    assert CANARY.encode() not in encode_json(found)
    assert CANARY not in printed(kinds.of(found).document(found, True, True), width=200)


@pytest.mark.parametrize("name", ["mlp", "several", "tune", "throughput", "load"])
def test_no_private_field_of_a_result_is_in_its_page(name: str) -> None:
    """A page without plots would be faster to make, but plots have labels."""
    found = redacted(planted(EXAMPLES[name], PLANTED["absolute"]))
    assert CANARY not in html(page_of(found))


def test_every_word_that_an_option_can_have_stays_in_the_command() -> None:
    """What the suite offers as a choice says nothing of the user."""
    words = {"resnet50", "ssd", "maskrcnn", "bert", "modelzoo"}
    for name in ("run", "validate", "throughput", "load", "tune", "fleet"):
        parser = Parser(prog=name)
        getattr(measuring, f"add_{name}")(parser)
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
        (("--data", "acme"), ("--data", "hidden-1")),
        (("--image", "acme:5000/zoo"), ("--image", "hidden-1")),
        (("--store", "10.1.2.3:29400"), ("--store", "hidden-1")),
        (("--python=/home/joe/my env, 2/bin/python",), ("--python=hidden-1",)),
        (("--vary", "python=acme-1,acme-2"), ("--vary", "python=hidden-1")),
        (("--setting", "mode=compile weights='/x/a b.pt'"), ("--setting", "mode=compile weights=hidden-1")),
        (("-oacme.json", "--label", "acme"), ("hidden-1", "--label", "hidden-2")),
        (("--setting", "@acme.txt"), ("--setting", "hidden-1")),
    ],
)
def test_what_is_no_word_of_the_suite_is_hidden(given: tuple[str, ...], shown: tuple[str, ...]) -> None:
    """Whatever the option: a bare name may be a file's."""
    assert redacted(Result(("modelzoo", "run", *given), "2026")).command == ("modelzoo", "run", *shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /srv/a b, c/x.bin: No such file", "hidden-1"),
        ("cannot read 'data/my cat.jpg': damaged", "hidden-1"),
        ("LD_PRELOAD=x is set; unset it", "hidden-1"),
        ("12 images/s\nwrote ~/a b/c (3 files)", "12 images/s\nhidden-1"),
        *(
            (text, text)
            for text in (
                "12 images/s at 3.5 GB/s, 0.5 FLOP/byte",
                "brgconv:avx512_core_bf16, aten::conv2d, layer1.0.conv1",
                "torch 2.10.0+cpu, glibc 2.36, Python 3.11.2",
                "ratio 1.05 [1.01, 1.09]; and/or 'n/a'",
                "Intel(R) Xeon(R) CPU @ 2.50GHz",
            )
        ),
    ],
)
def test_a_line_with_a_path_is_hidden(text: str, shown: str) -> None:
    """As a whole: where a path ends is not known. Units, kernels, versions and alternatives are no paths."""
    assert redacted_text(text) == shown


@pytest.mark.parametrize("name", ["acme set", "acme-registry/zoo", "torch-of-acme"])
def test_a_text_with_a_name_that_the_result_has_is_hidden(name: str) -> None:
    """The image, the interpreter's environment, and what an option named without a directory."""
    command = ("modelzoo", "run", "toy", "--data", "acme set")
    run = several_workloads().runs[-1]
    failed = replace(run, error=f"{name} was not found", requested=Setting(image="acme-registry/zoo:1"))
    other = replace(run, error="fp32 of toy failed", requested=Setting(python="/envs/torch-of-acme/bin/python"))
    found = redacted(Result(command, "2026", (SettingRequest("toy", Setting()),), runs=(failed, other)))
    assert name not in str(found.runs[0].error)
    assert found.runs[1].error == "fp32 of toy failed"


SECRETS = ("joe", "acme", "secret", "cat.jpg", "hostname7", "10.1.2.3")


def private() -> Result:
    """A result that names a user, a host, paths and files."""
    setting = Setting(weights="/srv/acme/secret-model.pt", input="/home/joe/My Pictures/cat.jpg", batch=1)
    weights = replace(WEIGHTS, kind=WeightsKind.PATH, name="secret-model.pt", path="/srv/acme/secret-model.pt")
    found = warning("X", "LD_PRELOAD=/opt/acme/lib.so is set; see ~/joe/notes.txt", "ask joe@acme.example")
    run = make([0.1] * 3, setting=setting, weights=weights, warnings=(found,))
    failed = make(None, setting=Setting(batch=2), error="cannot read /data/acme/secret model/x.bin: on hostname7")
    result = result_of(run, failed)
    command = (
        *("/home/joe/venv/bin/modelzoo", "run", "./acme/net", "--weights", "/srv/acme/secret-model.pt"),
        *("--input=/home/joe/My Pictures/cat.jpg", "--json", "secret", "--output", "a b/secret", "--batch", "1"),
    )
    entry = ValidityEntry(
        *("toy", 0, setting, 2),
        error="secret-model.pt is damaged",
        files=("out/acme/cat_compared.jpg",),
        thumbnails=(Thumbnail("cat_compared.jpg", b"jpeg"),),
    )
    return replace(result, command=command, validity=(entry,))


def test_nothing_private_is_left_in_result_or_page() -> None:
    """Paths, names of files, users, hosts and pictures."""
    found = redacted(private(), ["hostname7", "joe"])
    for shown in (encode_json(found).decode(), html(page_of(found))):
        assert [secret for secret in SECRETS if secret in shown] == []
        assert "cat" not in shown.replace("category", "").replace("indicat", "").split()
    assert found.validity[0].thumbnails == ()


def test_what_was_measured_stays() -> None:
    """Samples, settings, hardware and versions are those of the result."""
    before, after = private(), redacted(private())
    assert [(run.workload, run.steady) for run in before.runs] == [(run.workload, run.steady) for run in after.runs]
    mine, theirs = (result.runs[0].report for result in (before, after))
    assert (theirs.provenance.machine, theirs.setting.batch) == (mine.provenance.machine, 1)
    assert theirs.prepared.weights.sha256 == mine.prepared.weights.sha256


def test_hints_of_the_suite_can_still_be_followed() -> None:
    """They name variables with the values to set; a hint with something filled in is held to the same rule as any."""
    hint = warning_for(WarningCode.PAGE_FAULTS, faults=9, when="per second").hint
    given = (warning("PAGE_FAULTS", "MALLOC_TOP_PAD_=1 is set", hint), warning("PAGE_FAULTS", "m", f"{hint} A_B=1"))
    first, second = redacted(result_of(make([0.1], warnings=given))).runs[0].report.warnings
    assert (first.message[:7], first.hint) == ("hidden-", hint)
    assert (second.message, second.hint[:7]) == ("m", "hidden-")


def test_the_command_can_still_be_read() -> None:
    """Options stay, equal paths get equal substitutes, also in the reports."""
    found = redacted(private())
    assert found.command == (
        *("modelzoo", "run", "hidden-1", "--weights", "hidden-2", "--input=hidden-3", "--json", "hidden-4"),
        *("--output", "hidden-5", "--batch", "1"),
    )
    assert found.runs[0].report.prepared.weights.path == "hidden-2"


def test_stored_results_can_be_redacted() -> None:
    """No path is left, not even in a field that is public by mistake."""
    for path in (DATA / "results").glob("*.json"):
        text = encode_json(redacted(store.read(path))).decode()
        assert ("~/" in text, "/home/" in text) == (False, False), path

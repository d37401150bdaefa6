"""Settings and plans refuse what makes no sense, and have labels that tell them apart."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from places import ROOT

from modelzoo.errors import UsageError
from modelzoo.field import parse_words
from modelzoo.plan import Effort, Plan
from modelzoo.records.codec import decode, encode
from modelzoo.setting import ResolvedSetting, Setting, labels


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp64"}, "--precision must be one of fp32, tf32, bf16, fp16, int8, not 'fp64'"),
        ({"mode": "fast"}, "--mode must be one of eager, compile, script, "),
        ({"backend": "acl"}, "--backend must be one of auto, onednn, blas, not 'acl'"),
        ({"precision": "bf16", "bf16_method": "magic"}, "--bf16 must be one of fastmath, autocast, cast, hint"),
        ({"batch": 0}, "--batch must be 1 or more, not 0"),
        ({"threads": 0}, "--threads must be 1 or more, not 0"),
        ({"seed": -1}, "--seed must be from 0"),
        ({"seed": 2**63}, "--seed must be from 0"),
        ({"include_copies": True}, "--include-copies is for accelerators"),
        ({"python": "/p", "image": "zoo:a"}, "python and image contradict each other: an image has its own Python"),
    ],
)
def test_a_setting_refuses_nonsense(changes: dict[str, Any], message: str) -> None:
    """The message names the option, what it may be and what it was."""
    with pytest.raises(UsageError) as caught:
        Setting(**changes)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup": -1}, "--warmup must be 0 or more, not -1"),
        ({"iterations": 0}, "--iterations must be 1 or more, not 0"),
        ({"max_seconds": 0.0}, "--max-seconds must be a number over 0, not 0"),
        ({"max_seconds": -1.0}, "--max-seconds must be a number over 0, not -1"),
        ({"max_seconds": float("nan")}, "--max-seconds must be a number over 0, not nan"),
        ({"max_seconds": float("inf")}, "--max-seconds must be a number over 0, not inf"),
    ],
)
def test_a_plan_refuses_nonsense(changes: dict[str, Any], message: str) -> None:
    """NaN is not over 0 either."""
    with pytest.raises(UsageError, match=message):
        Plan(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"processes": 0}, "--processes must be 1 or more, not 0"),
        ({"margin": 0.0}, "--margin must be over 0 % and under 100 %, not 0 %"),
        ({"margin": 5.0}, "--margin must be over 0 % and under 100 %, not 500 %; write 5% or 0.05"),
        ({"margin": float("nan")}, "--margin must be over 0 %"),
        ({"budget": 0.0}, "--budget must be over 0, not 0 s"),
        ({"budget": float("inf")}, "--budget must be over 0, not inf s"),
    ],
)
def test_an_effort_refuses_nonsense(changes: dict[str, Any], message: str) -> None:
    """No limit is the absence of a budget, not an infinite one."""
    with pytest.raises(UsageError, match=message):
        Effort(**changes)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "fp32"),
        ({"precision": "bf16"}, "bf16"),
        ({"precision": "bf16", "bf16_method": "cast"}, "bf16=cast"),
        ({"mode": "compile", "backend": "blas", "channels_last": True}, "fp32 compile blas channels-last"),
        ({"engine": "openvino", "malloc": "tcmalloc"}, "fp32 openvino malloc=tcmalloc"),
        ({"channels_last": True, "malloc": "glibc", "thp": "off"}, "fp32 channels-last malloc=glibc thp=off"),
        ({"python": "~/envs/torch-2.9.1/bin/python"}, "fp32 python=torch-2.9.1"),
        ({"python": "/usr/bin/python3.11"}, "fp32 python=python3.11"),
        ({"backend": "blas", "image": "host:5000/zoo:torch2"}, "fp32 blas image=torch2"),
        ({"image": "host:5000/zoo"}, "fp32 image=host:5000/zoo"),
    ],
)
def test_the_label_names_what_differs_from_the_defaults(changes: dict[str, Any], label: str) -> None:
    """A short name, without what is as always."""
    assert Setting(**changes).label == label


def test_a_changed_copy_leaves_the_original_and_is_checked() -> None:
    """A copy is checked like any other setting."""
    setting = Setting()
    assert setting.replace(batch=4) == Setting(batch=4)
    assert setting.batch is None
    with pytest.raises(UsageError):
        setting.replace(batch=0)


def test_a_setting_survives_json() -> None:
    """What is stored can be read back as the same setting."""
    setting = Setting(
        "bf16", "cast", mode="script", batch=4, channels_last=True, input="/a/b", options={"size": "base"}
    )
    assert decode(Setting, json.loads(json.dumps(encode(setting)))) == setting


def test_a_setting_of_an_older_version_has_the_defaults_of_what_it_lacks() -> None:
    """Its label stays what it was."""
    old = decode(Setting, {"precision": "bf16", "bf16_method": "cast", "mode": "eager", "threads": 2})
    assert (old.malloc, old.thp, old.label) == ("default", "default", "bf16=cast")
    assert (old.python, old.image) == (None, None)


def test_the_reference_is_plain_fp32_of_the_same_work() -> None:
    """What a model computes stays, how it is executed becomes the default; what was resolved stays resolved."""
    bf16 = Setting(
        "bf16", "cast", mode="compile", backend="blas", batch=4, channels_last=True, seed=7, options={"size": "base"}
    )
    assert bf16.reference() == Setting(batch=4, seed=7, options={"size": "base"})
    resolved = ResolvedSetting("bf16", "cast", mode="compile", backend="blas", batch=4, threads=2)
    assert resolved.reference() == ResolvedSetting(batch=4, threads=2)


@pytest.mark.parametrize("process", [{"malloc": "tcmalloc", "thp": "on"}, {"python": "/p"}, {"image": "zoo:a"}])
def test_the_reference_runs_in_the_process_of_the_setting(process: dict[str, Any]) -> None:
    """Both models are in one process; so fp32 with another allocator is its own reference, and not judged."""
    setting = Setting(**process)
    assert setting.reference() == setting


@pytest.mark.parametrize(
    ("field", "values", "shown"),
    [
        ("python", ["/me/envs/torch-2.9.1/bin/python", "/me/.venv/bin/python", None], ["torch-2.9.1", ".venv", None]),
        ("python", ["/a/x/bin/python", "/b/x/bin/python"], ["a/x/bin/python", "b/x/bin/python"]),
        ("python", ["/usr/bin/python3.10", "/usr/bin/python3.11"], ["python3.10", "python3.11"]),
        ("image", ["zoo:torch2_acl", "zoo:torch2_openblas"], ["torch2_acl", "torch2_openblas"]),
        ("image", ["mine:new", "host/theirs:new"], ["mine:new", "theirs:new"]),
        ("image", ["a/zoo:new", "b/zoo:new"], ["a/zoo:new", "b/zoo:new"]),
        ("image", ["zoo@sha256:abc", "zoo:new"], ["zoo@sha256:abc", "new"]),
    ],
)
def test_interpreters_and_images_have_short_names_that_differ(
    field: str, values: list[str | None], shown: list[str | None]
) -> None:
    """The environment's name or the tag, and more of the path or name only if these are the same."""
    expected = ["fp32" + (f" {field}={name}" if name else "") for name in shown]
    assert labels([Setting(**{field: value}) for value in values]) == expected


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"bf16_method": "cast"}])
def test_a_resolved_setting_leaves_no_bf16_method_open(changes: dict[str, Any]) -> None:
    """bf16 has a method, fp32 has none."""
    with pytest.raises(ValueError, match="is not resolved"):
        ResolvedSetting(**changes)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], []),
        ([Setting(batch=8)], ["fp32"]),
        ([Setting(), Setting("bf16")], ["fp32", "bf16"]),
        ([Setting(), Setting(), Setting()], ["fp32", "fp32 #2", "fp32 #3"]),
        ([Setting(batch=1), Setting(batch=8)], ["fp32 batch=1", "fp32 batch=8"]),
        ([Setting(threads=1), Setting()], ["fp32 threads=1", "fp32 threads=default"]),
        ([Setting(), Setting(device="cuda:1")], ["fp32 device=cpu", "fp32 device=cuda:1"]),
        ([Setting(seed=1), Setting("bf16", seed=2)], ["fp32 seed=1", "bf16 seed=2"]),
        ([Setting(options={"size": "base"}), Setting()], ["fp32 size=base", "fp32"]),
        (
            [Setting(options={"size": "base", "n": 1}), Setting(options={"size": "base", "n": 2})],
            ["fp32 n=1", "fp32 n=2"],
        ),
        (
            [Setting(), Setting(malloc="tcmalloc"), Setting(malloc="tcmalloc", thp="on")],
            ["fp32", "fp32 malloc=tcmalloc", "fp32 malloc=tcmalloc thp=on"],
        ),
        ([Setting(batch=1), Setting(batch=8), Setting(batch=8)], ["fp32 batch=1", "fp32 batch=8", "fp32 batch=8 #2"]),
    ],
)
def test_labels_tell_settings_apart_by_whatever_differs(settings: list[Setting], expected: list[str]) -> None:
    """What all have in common is left out; settings that are equal are numbered."""
    assert labels(settings) == expected


def test_words_are_parsed_as_a_shell_would() -> None:
    """Values may be quoted, and errors name the option and the side."""
    assert parse_words("mode=compile input='a b.jpg'", "--setting") == {"mode": "compile", "input": "a b.jpg"}
    with pytest.raises(UsageError, match="--pair 'x' names mode twice on one side"):
        parse_words("mode=eager mode=compile", "--pair 'x'", " on one side")


NEW_FIELD = """
import sys, types
from pathlib import Path
import modelzoo

path = Path(modelzoo.__file__).with_name("setting.py")
new = 'tiles: Annotated[int | None, Field("tiles", "N", low=1, label=Labelled.NAMED)] = None\\n    '
source = path.read_text().replace("malloc: Annotated[", new + "malloc: Annotated[", 1)
module = types.ModuleType("modelzoo.setting")
sys.modules["modelzoo.setting"] = modelzoo.setting = module
exec(compile(source, str(path), "exec"), module.__dict__)

from modelzoo.cli.app import make_parser
from modelzoo.cli.selection import select_settings
from modelzoo.comparison.pairing import words
from modelzoo.views import recipe
from modelzoo.results.schema import result_schema

given = ["run", "examples/mlp", "--weights", "random", "--precision", "fp32"]
((_, found),) = select_settings(make_parser().parse_args([*given, "--vary", "tiles=1,4"]), "fp32")
print(module.labels(found))
((_, (one,)),) = select_settings(make_parser().parse_args([*given, "--tiles", "3"]), "fp32")
print(words(one)["tiles"], "tiles=3" in recipe.words(module.ResolvedSetting(tiles=3)), one.reference().tiles)
print(result_schema()["$defs"]["Setting"]["properties"]["tiles"])
try:
    module.Setting(tiles=0)
except Exception as error:
    print(error)
"""


def test_a_new_field_is_one_declaration() -> None:
    """Option, --vary, label, check, pairing, recipe and schema follow from it."""
    done = subprocess.run([sys.executable, "-c", NEW_FIELD], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "['fp32 tiles=1', 'fp32 tiles=4']",
        "3 True 3",
        "{'anyOf': [{'type': 'integer'}, {'type': 'null'}], 'minimum': 1, 'description': 'tiles'}",
        "--tiles must be 1 or more, not 0",
    ], done.stderr

"""Settings and plans refuse what makes no sense, and have labels that tell them apart."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from places import ROOT

from modelzoo.errors import UsageError
from modelzoo.field import parse_words
from modelzoo.plan import Effort, Plan
from modelzoo.records.codec import decode
from modelzoo.setting import ResolvedSetting, Setting, labels


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            *(Setting, {"precision": "fp64"}),
            r"--precision must be one of fp32, tf32, bf16, fp16, int8, not 'fp64'; did you mean 'fp16'\?",
        ),
        (Setting, {"batch": 0}, "--batch must be 1 or more, not 0"),
        (Setting, {"seed": -1}, r"--seed must be from 0 to 2\*\*63 - 1, not -1"),
        (Setting, {"seed": 2**63}, r"--seed must be from 0 to 2\*\*63 - 1, not 9223372036854775808"),
        (
            *(Setting, {"include_copies": True}),
            "--include-copies is for accelerators: the CPU copies nothing; leave it out",
        ),
        (
            *(Setting, {"include_copies": True, "device": "cuda", "stages": True}),
            "--include-copies and --stages contradict each other: copies are stages; leave one out",
        ),
        (
            *(Setting, {"python": "/p", "image": "zoo:a"}),
            "python and image contradict each other: an image has its own Python; leave one out",
        ),
        (Plan, {"warmup": -1}, "--warmup must be 0 or more, not -1"),
        (Plan, {"iterations": 0}, "--iterations must be 1 or more, not 0"),
        (Plan, {"max_seconds": 0.0}, "--max-seconds must be a number over 0, not 0"),
        (Plan, {"max_seconds": float("nan")}, "--max-seconds must be a number over 0, not nan"),
        (Plan, {"max_seconds": float("inf")}, "--max-seconds must be a number over 0, not inf"),
        (Effort, {"processes": 0}, "--processes must be 1 or more, not 0"),
        (Effort, {"margin": 0.0}, "--margin must be over 0 % and under 100 %, not 0 %; write 5% or 0.05"),
        (Effort, {"margin": 5.0}, "--margin must be over 0 % and under 100 %, not 500 %; write 5% or 0.05"),
        (Effort, {"margin": float("nan")}, "--margin must be over 0 % and under 100 %, not nan %; write 5% or 0.05"),
        (Effort, {"budget": 0.0}, "--budget must be over 0, not 0 s"),
        (Effort, {"budget": float("inf")}, "--budget must be over 0, not inf s"),
    ],
)
def test_nonsense_is_refused(kind: type[Setting | Plan | Effort], changes: dict[str, Any], message: str) -> None:
    """The message names the option, what it may be and what it was."""
    with pytest.raises(UsageError) as caught:
        kind(**changes)
    assert re.fullmatch(message, str(caught.value))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([{}], ["fp32"]),
        ([{"precision": "bf16", "bf16_method": "cast"}], ["bf16=cast"]),
        (
            [{"mode": "compile", "backend": "blas", "channels_last": True, "malloc": "glibc", "thp": "off"}],
            ["fp32 compile blas channels-last malloc=glibc thp=off"],
        ),
        ([{"engine": "openvino"}], ["fp32 openvino"]),
        ([{"batch": 8}], ["fp32"]),
        ([{"batch": 1}, {"batch": 8}, {"batch": 8}], ["fp32 batch=1", "fp32 batch=8", "fp32 batch=8 #2"]),
        ([{}, {}, {}], ["fp32", "fp32 #2", "fp32 #3"]),
        ([{"threads": 1}, {}], ["fp32 threads=1", "fp32 threads=default"]),
        ([{"seed": 1}, {"precision": "bf16", "seed": 2}], ["fp32 seed=1", "bf16 seed=2"]),
        ([{"options": {"size": "base"}}, {}], ["fp32 size=base", "fp32"]),
        (
            [{"options": {"size": "base", "n": 1}}, {"options": {"size": "base", "n": 2}}],
            ["fp32 n=1", "fp32 n=2"],
        ),
        ([{}, {"malloc": "tcmalloc"}], ["fp32", "fp32 malloc=tcmalloc"]),
        (
            [{"python": path} for path in ("/me/envs/torch-2.9.1/bin/python", "~/.venv/bin/python", None)],
            ["fp32 python=torch-2.9.1", "fp32 python=.venv", "fp32"],
        ),
        (
            [{"python": path} for path in ("/a/x/bin/python", "/b/x/bin/python")],
            ["fp32 python=a/x/bin/python", "fp32 python=b/x/bin/python"],
        ),
        (
            [{"python": path} for path in ("/usr/bin/python3.10", "/usr/bin/python3.11")],
            ["fp32 python=python3.10", "fp32 python=python3.11"],
        ),
        (
            [{"image": name} for name in ("host:5000/zoo:torch2_acl", "zoo:torch2_openblas")],
            ["fp32 image=torch2_acl", "fp32 image=torch2_openblas"],
        ),
        ([{"python": "/usr/bin/python3.11"}], ["fp32 python=python3.11"]),
        ([{"image": "host:5000/zoo"}], ["fp32 image=host:5000/zoo"]),
        (
            [{"image": name} for name in ("mine:new", "host/theirs:new")],
            ["fp32 image=mine:new", "fp32 image=theirs:new"],
        ),
        ([{"image": name} for name in ("a/zoo:new", "b/zoo:new")], ["fp32 image=a/zoo:new", "fp32 image=b/zoo:new"]),
        ([{"image": name} for name in ("zoo@sha256:abc", "zoo:new")], ["fp32 image=zoo@sha256:abc", "fp32 image=new"]),
    ],
)
def test_labels_tell_settings_apart_by_whatever_differs(settings: list[dict[str, Any]], expected: list[str]) -> None:
    """What is as always, or all have in common, is left out; settings that are equal are numbered. Interpreters and
    images have the name of their environment or tag, and more of the path or name only if these are the same."""
    assert labels([Setting(**each) for each in settings]) == expected


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


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"bf16_method": "cast"}])
def test_a_resolved_setting_leaves_no_bf16_method_open(changes: dict[str, Any]) -> None:
    """bf16 has a method, fp32 has none."""
    with pytest.raises(ValueError, match="is not resolved"):
        ResolvedSetting(**changes)


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

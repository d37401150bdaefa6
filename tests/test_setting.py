"""Settings and plans refuse what makes no sense, and have labels that tell them apart."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from modelzoo.errors import UsageError
from modelzoo.plan import Effort, Plan
from modelzoo.records.codec import decode
from modelzoo.setting import ResolvedSetting, Setting, labels

INF = math.inf


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (Setting, {"seed": 2**63}, r"--seed must be from 0 to 2\*\*63 - 1, not 9223372036854775808"),
        (
            *(Setting, {"include_copies": True}),
            "--include-copies is for accelerators: the CPU copies nothing; leave it out",
        ),
        (
            *(Setting, {"include_copies": True, "device": "cuda", "stages": True}),
            "--include-copies and --stages contradict each other: copies are stages; leave one out",
        ),
        (Plan, {"iterations": 0}, "--iterations must be 1 or more, not 0"),
        *((Plan, {"max_seconds": each}, f"--max-seconds must be a number over 0, not {each:g}") for each in (0.0, INF)),
        (Effort, {"processes": 0}, "--processes must be 1 or more, not 0"),
        (Effort, {"margin": math.nan}, "--margin must be over 0 % and under 100 %, not nan %; write 5% or 0.05"),
        (Effort, {"budget": INF}, "--budget must be over 0, not inf s"),
    ],
)
def test_nonsense_is_refused(kind: type[Setting | Plan | Effort], changes: dict[str, Any], message: str) -> None:
    """Also by a worker; what a command line can say is in tests/cli/test_mistakes.py."""
    with pytest.raises(UsageError) as caught:
        kind(**changes)
    assert re.fullmatch(message, str(caught.value))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            [{"mode": "compile", "backend": "blas", "channels_last": True, "malloc": "glibc", "thp": "off"}],
            ["fp32 compile blas channels-last malloc=glibc thp=off"],
        ),
        ([{"engine": "openvino"}], ["fp32 openvino"]),
        ([{"batch": 8}], ["fp32"]),
        ([{"batch": 1}, {"batch": 8}, {"batch": 8}], ["fp32 batch=1", "fp32 batch=8", "fp32 batch=8 #2"]),
        ([{"threads": 1}, {}], ["fp32 threads=1", "fp32 threads=default"]),
        ([{"seed": 1}, {"precision": "bf16", "seed": 2}], ["fp32 seed=1", "bf16 seed=2"]),
        ([{"options": {"size": "base"}}, {}], ["fp32 size=base", "fp32"]),
        ([{"options": {"size": "base", "n": n}} for n in (1, 2)], ["fp32 n=1", "fp32 n=2"]),
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
    """What all have in common is left out, equals are numbered, and names of interpreters and images are short."""
    assert labels([Setting(**each) for each in settings]) == expected


def test_a_setting_of_an_older_version_has_the_defaults_of_what_it_lacks() -> None:
    """Its label stays what it was."""
    old = decode(Setting, {"precision": "bf16", "bf16_method": "cast", "mode": "eager", "threads": 2})
    assert (old.malloc, old.thp, old.label) == ("default", "default", "bf16=cast")
    assert (old.python, old.image) == (None, None)


def test_the_reference_is_plain_fp32_of_the_same_work() -> None:
    """What a model computes stays, how it is executed becomes the default; what was resolved stays resolved."""
    executed, work = {"mode": "compile", "backend": "blas", "channels_last": True}, {"seed": 7, "options": {"n": 1}}
    assert Setting("bf16", "cast", batch=4, **executed, **work).reference() == Setting(batch=4, **work)
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

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
            "compile blas channels-last malloc=glibc thp=off",
        ),
        ([{"engine": "openvino"}], "openvino"),
        ([{"batch": 1}, {"batch": 8}, {"batch": 8}], "batch=1, batch=8, batch=8 #2"),
        ([{"threads": 1}, {}], "threads=1, threads=default"),
        ([{"options": {"size": "base", "n": n}} for n in (1, 2)], "n=1, n=2"),
    ],
)
def test_labels_tell_settings_apart_by_whatever_differs(settings: list[dict[str, Any]], expected: str) -> None:
    """What all have in common is left out, and equals are numbered."""
    assert labels([Setting(**each) for each in settings]) == [f"fp32 {each}" for each in expected.split(", ")]


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("python", "/me/envs/torch-2.9.1/bin/python ~/.venv/bin/python", "torch-2.9.1 .venv"),
        ("python", "/a/x/bin/python /b/x/bin/python", "a/x/bin/python b/x/bin/python"),
        ("python", "/usr/bin/python3.10 /usr/bin/python3.11", "python3.10 python3.11"),
        ("image", "host:5000/zoo:torch2_acl zoo:torch2_openblas", "torch2_acl torch2_openblas"),
        ("image", "host:5000/zoo", "host:5000/zoo"),
        ("image", "mine:new host/theirs:new", "mine:new theirs:new"),
        ("image", "a/zoo:new b/zoo:new", "a/zoo:new b/zoo:new"),
        ("image", "zoo@sha256:abc zoo:new", "zoo@sha256:abc new"),
    ],
)
def test_interpreters_and_images_have_their_shortest_names(field: str, values: str, expected: str) -> None:
    """The name of the environment or the tag, and more only where these are the same."""
    found = labels([Setting(**{field: value}) for value in values.split()])
    assert found == [f"fp32 {field}={each}" for each in expected.split()]


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

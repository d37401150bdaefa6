"""Which workloads and settings a command line names."""

from __future__ import annotations

import pytest

from modelzoo.cli import app
from modelzoo.cli.options import explicit_bf16
from modelzoo.cli.selection import Jobs, load_workloads, select_settings
from modelzoo.errors import UsageError


def jobs(*words: str) -> Jobs:
    """What ``modelzoo run`` with these words would run."""
    args = app.make_parser().parse_args(explicit_bf16(["run", *words]))
    return select_settings(args, "fp32,bf16")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [("fp32", None), ("bf16", None)]),
        (("--bf16",), [("bf16", None)]),
        (("--bf16=cast",), [("bf16", "cast")]),
        (("--bf16=cast", "--precision", "fp32,bf16"), [("fp32", None), ("bf16", "cast")]),
        (("--precision", "bf16,fp32,bf16"), [("bf16", None), ("fp32", None)]),
    ],
)
def test_one_setting_per_precision(words: tuple[str, ...], expected: list[tuple[str, str | None]]) -> None:
    """The baseline comes first, repetitions are dropped, and the bf16 method belongs to bf16 alone."""
    ((_, settings),) = jobs("examples/mlp", *words)
    assert [(setting.precision, setting.bf16_method) for setting in settings] == expected


def test_without_names_the_four_standard_workloads_run() -> None:
    """In their order."""
    assert [work.name for work in load_workloads(())] == ["resnet50", "ssd", "maskrcnn", "bert"]


def test_an_option_goes_to_the_workload_that_has_it() -> None:
    """Others keep their own options."""
    (bert, (first, _)), (mlp, (second, _)) = jobs("bert", "examples/mlp", "--option", "sequence=64")
    assert (bert.name, first.options["sequence"]) == ("bert", 64)
    assert (mlp.name, "sequence" in second.options) == ("mlp", False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("examples/mlp", "examples/mlp"), "mlp is named twice"),
        (("examples/mlp", "--bf16", "--precision", "fp32"), "contradicts itself"),
        (("examples/mlp", "--option", "width"), "must have the form NAME=VALUE"),
        (("examples/mlp", "--option", "size=large"), "none of these workloads has it"),
        (("examples/mlp", "--precision", "fp64"), "--precision must be a list of"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], message: str) -> None:
    """Before anything starts."""
    with pytest.raises(UsageError, match=message):
        jobs(*words)

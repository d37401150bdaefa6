"""What a workload declares: its option values, and the checkpoints that they select."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from places import ROOT

import modelzoo.workload
from modelzoo.engines.export.source import flatten
from modelzoo.errors import UsageError
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Option, Workload, discovery
from modelzoo.workload.declaration import CALIBRATION_BATCHES, calibration_inputs, inputs_digest, make_inputs


def options(weights: str = "auto", **given: Any) -> dict[str, Any]:
    """Values of a workload with one option of each kind."""
    declared = (
        Option(name="size", default="base", help="which size", choices=("base", "large"), by_checkpoint=True),
        Option(name="sequence", default=384, help="tokens", type=int, minimum=16, maximum=512),
    )
    return Workload("w", "", "", None, None, options=declared).option_values(given, weights)  # type: ignore[arg-type]


def test_options_have_their_defaults_and_types() -> None:
    """Text is converted to the declared type; options that are not given have their defaults."""
    assert options() == {"size": "base", "sequence": 384}
    assert options(sequence="16") == {"size": "base", "sequence": 16}
    assert options(sequence="512", size="large") == {"size": "large", "sequence": 512}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequence": "x"}, "--sequence cannot be 'x': tokens"),
        ({"sequence": "5"}, "--sequence must be 16 or more, not 5"),
        ({"sequence": "100000"}, "--sequence must be 512 or less, not 100000"),
        ({"size": "huge"}, "--size must be one of base, large, not 'huge'"),
        ({"depth": "3"}, r"workload w has no option 'depth' \(it has: sequence, size\)"),
    ],
)
def test_option_values_are_held_to_what_is_declared(given: dict[str, str], message: str) -> None:
    """Unknown names, wrong types, unknown choices and values out of bounds are errors that name the option."""
    with pytest.raises(UsageError, match=message):
        options(**given)


def test_bert_and_maskrcnn_bound_their_sizes() -> None:
    """A sequence longer than the position table is an error before anything starts."""
    for name, option, value in (("bert", "sequence", "100000"), ("maskrcnn", "min-size", "1")):
        with pytest.raises(UsageError, match=f"--{option} must be"):
            discovery.load_workload(discovery.find_workload(name)).option_values({option: value})


def test_what_a_checkpoint_decides_has_no_value_beside_it() -> None:
    """A label would otherwise name a model that did not run; given for all that, it contradicts the checkpoint."""
    assert options("/checkpoints/gemma") == {"sequence": 384}
    assert options("random") == {"size": "base", "sequence": 384}
    with pytest.raises(UsageError, match="--size is decided by --weights /checkpoints/gemma: leave one of both out"):
        options("/checkpoints/gemma", size="large")


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", ["resnet50", "ssd", "maskrcnn", "bert", "llm", "examples/mlp"])
def test_calibration_holds_nothing_that_is_measured(name: str, batch: int, tmp_path: Path) -> None:
    """No item of the measured batch, and none twice; in the same shapes, because an exported model has one."""
    work = discovery.load_workload(discovery.find_workload(name))
    setting = ResolvedSetting("int8", recipe="static", batch=batch, options=work.option_values({}))
    weights = Weights(WeightsKind.RANDOM, "random", str(tmp_path / "weights.safetensors"), "")
    measured = make_inputs(work, setting, weights)
    found = calibration_inputs(work, setting, weights)
    assert len({inputs_digest(each.args) for each in (measured, *found)}) == 1 + CALIBRATION_BATCHES
    if name != "examples/mlp":  # all of its items are called noise
        items = [item for each in (measured, *found) for item in each.items]
        assert len(set(items)) == len(items)
    shapes = {tuple(value.shape for value in flatten(each.args)[1]) for each in (measured, *found)}
    assert len(shapes) == 1
    if name in ("bert", "llm"):  # whose windows of one text would overlap
        rows = [flatten(each.args)[1][0].tolist() for each in (measured, *found)]
        first, *others = ({tuple(row[at : at + 64]) for row in ids for at in range(len(row) - 63)} for ids in rows)
        assert not first & set().union(*others)


def digest(*args: object) -> str | None:
    """The digest of these arguments."""
    return inputs_digest(args)


def test_the_digest_follows_values_shapes_types_and_order() -> None:
    """Equal arrays of any library give the same digest, and every difference another one."""
    array = np.arange(6, dtype="float32").reshape(2, 3)
    same = digest(torch.from_numpy(array))
    assert digest(array) == same
    assert digest([array]) == same, "lists are flattened"
    others = [array.reshape(3, 2), array.astype("float64"), array + 1]
    assert len({same, *map(digest, others)}) == 4
    assert digest(array, array + 1) != digest(array + 1, array)


def test_inputs_that_numpy_cannot_represent_have_no_digest() -> None:
    """They run all the same: a bf16 tensor, one that requires a gradient, an object of the workload's own."""
    assert digest(torch.ones(2, dtype=torch.bfloat16)) is None
    assert digest(torch.ones(2, requires_grad=True)) is None
    assert digest(np.ones(2), object()) is None


def test_the_public_names_are_those_of_the_page() -> None:
    """Removing or renaming one breaks workloads of other people; each is documented."""
    page = (ROOT / "docs" / "workload.md").read_text()
    listed = page.partition("## Names in `modelzoo.workload`")[2].partition("Judges (")[0]
    names = set(re.findall(r"`([A-Za-z_0-9]+)`", listed)) - {"inputs"}  # a field
    assert all(getattr(modelzoo.workload, name).__doc__ for name in names)
    given = {name for name, each in vars(modelzoo.workload).items() if name[0] != "_" and not inspect.ismodule(each)}
    assert given - {"annotations"} == names

"""Inputs and outputs of every shape that models have are taken apart into arrays and put together again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.engines.export.source import NamedOutput, Structure, flatten, rebuild
from modelzoo.errors import UsageError
from modelzoo.records.codec import decode, encode

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.builds(np.arange, st.integers(0, 5))
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


class ModelOutput(OrderedDict[str, Any]):
    """Like that of transformers."""

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


@given(NESTED)
def test_whatever_is_taken_apart_can_be_put_together(value: Any) -> None:
    """Containers, their order, numbers and None stay as they are; the structure survives being stored."""
    structure, arrays = flatten(value)
    assert structure.count == len(arrays) == len(structure.names()) == len(set(structure.names()))
    np.testing.assert_equal(rebuild(decode(Structure, encode(structure)), arrays), value)


def test_detections_have_names() -> None:
    """What torchvision's detectors return: a dict for each picture."""
    structure, arrays = flatten([{"boxes": np.zeros((2, 4)), "labels": np.ones(2)}, {"boxes": np.zeros((0, 4))}])
    assert structure.names() == ("0.boxes", "0.labels", "1.boxes")
    assert [each.shape for each in arrays] == [(2, 4), (2,), (0, 4)]
    assert flatten(np.ones(1))[0].names() == ("output",)


def test_outputs_of_transformers_keep_their_keys_attributes_and_numbers() -> None:
    """A judge may use any of them."""
    structure, arrays = flatten(ModelOutput(start_logits=np.zeros(1), end_logits=np.ones(1)))
    found = rebuild(structure, arrays)
    assert isinstance(found, NamedOutput)
    assert found["end_logits"] is found.end_logits is found[1] is arrays[1]
    assert found[:2] == (arrays[0], arrays[1])
    with pytest.raises(AttributeError):
        _ = found.loss


def test_numbers_come_back_from_arrays_as_numbers() -> None:
    """A stored number is an array without dimensions."""
    structure, arrays = flatten((2, 0.5, True))
    assert rebuild(structure, [np.asarray(each) for each in arrays]) == (2, 0.5, True)


def test_what_cannot_be_exported_is_refused() -> None:
    """An object of the workload's own, and arrays that do not fit."""
    with pytest.raises(UsageError, match="a set cannot be passed to an exported model; .*--engine torch"):
        flatten([{1}])
    with pytest.raises(ValueError, match="1 arrays do not fit a structure of 2"):
        rebuild(flatten((np.ones(1), np.ones(1)))[0], [np.ones(1)])

"""Errors cross from a worker to its parent by name."""

from __future__ import annotations

import inspect

from modelzoo import errors


def test_every_error_class_can_cross() -> None:
    """A class that is missing from ``KINDS`` would arrive as its base class."""
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.ModelzooError)
    }
    assert classes == errors.KINDS


def test_a_damaged_checkpoint_is_a_problem_of_weights() -> None:
    """Code that handles ``WeightsError`` handles damaged checkpoints as well."""
    assert issubclass(errors.DamagedWeightsError, errors.WeightsError)

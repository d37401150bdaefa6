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

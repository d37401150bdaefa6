"""Fixtures of the tests of fleets."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _torch_is_imported() -> None:
    """Or the first member that needs it comes seconds after the others."""
    import torch.distributed  # noqa: F401

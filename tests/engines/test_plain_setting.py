"""Engines other than torch refuse what only torch has."""

from __future__ import annotations

import pytest

from modelzoo.engines.export.engine import require_plain
from modelzoo.errors import UsageError
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        (Setting(device="cuda"), "--device cuda"),
        (Setting(mode="compile"), "--mode compile"),
        (Setting(backend="blas"), "--backend blas"),
        (Setting(channels_last=True), "--channels-last"),
    ],
)
def test_options_of_torch_are_refused_in_one_line(setting: Setting, option: str) -> None:
    """The line names the option, the engine and the way out."""
    with pytest.raises(UsageError, match=f"^{option} is an option of torch, and Some Engine .*--engine torch$"):
        require_plain(setting, "Some Engine")


def test_what_every_engine_has_is_allowed() -> None:
    """Threads, batch, weights and allocator are no matter of the engine."""
    require_plain(Setting(threads=2, batch=4, weights="random", malloc="glibc", thp="on"), "Some Engine")

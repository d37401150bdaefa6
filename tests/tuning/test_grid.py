"""The declared list of settings, and what a machine leaves out of it."""

from __future__ import annotations

import pytest

from modelzoo.errors import UsageError
from modelzoo.records.tuning import Goal
from modelzoo.setting import Setting, choices
from modelzoo.tuning import grid
from modelzoo.tuning.grid import LARGEST, Conditions

SERVER = Conditions(threads=8, logical=16)


@pytest.mark.parametrize("goal", list(Goal))
def test_the_whole_list_is_at_most_40_settings_and_has_no_duplicates(goal: Goal) -> None:
    """On a machine that has everything."""
    found = grid.declared(Setting(), goal, SERVER, batch=1).settings
    assert len(found) <= LARGEST
    assert len(set(map(repr, found))) == len(found)
    assert found[0] == Setting(), "the default comes first"


def test_every_axis_is_in_the_list() -> None:
    """Each option that the documentation names takes another value than the default's somewhere."""
    found = grid.declared(Setting(), Goal.LATENCY, SERVER, batch=1).settings
    assert {each.engine for each in found} == set(choices("engine"))
    assert {each.mode for each in found} == {"eager", "compile", "max-autotune", "cpp-wrapper", "aot", "script"}
    assert {each.bf16_method for each in found} == {None, "autocast", "fastmath", "cast"}
    assert {each.threads for each in found} == {None, 4, 16}
    for name in ("channels_last", "malloc", "thp", "primitive_cache", "precision"):
        assert len({getattr(each, name) for each in found}) > 1, name


def test_larger_batches_are_for_throughput_only() -> None:
    """A latency is that of the batch that the user has."""
    assert {each.batch for each in grid.declared(Setting(), Goal.LATENCY, SERVER, batch=2).settings} == {None}
    assert {each.batch for each in grid.declared(Setting(), Goal.THROUGHPUT, SERVER, batch=2).settings} == {None, 8, 32}


def test_what_is_missing_is_left_out_with_its_reason() -> None:
    """Once, however many settings it concerns; by the names that options have."""
    missing = {"malloc=tcmalloc": "it is not installed", "precision=bf16": "no instructions"}
    found = grid.declared(Setting(), Goal.LATENCY, Conditions(8, 16, missing), batch=1)
    assert "tcmalloc" not in {each.malloc for each in found.settings}
    assert {each.precision for each in found.settings} == {"fp32"}
    assert [(each.what, each.reason) for each in found.left_out] == [
        ("malloc=tcmalloc", "it is not installed"),
        ("precision=bf16", "no instructions"),
    ]


def test_one_core_has_no_other_number_of_threads() -> None:
    """The axis is left out, and said."""
    found = grid.declared(Setting(), Goal.LATENCY, Conditions(1, 1), batch=1)
    assert {each.threads for each in found.settings} == {None}
    assert ("threads", "there is one core") in [(each.what, each.reason) for each in found.left_out]


def test_what_the_call_fixes_is_not_varied() -> None:
    """It belongs to the default, and so to every candidate."""
    base = Setting(channels_last=True, threads=2)
    found = grid.declared(base, Goal.LATENCY, SERVER, batch=1)
    assert all(each.channels_last and each.threads == 2 for each in found.settings)
    assert ("channels-last", "the call says channels-last=on") in [(e.what, e.reason) for e in found.left_out]


def test_exact_settings_follow_the_default() -> None:
    """The default is measured in any case, and only once, also if it is named by its numbers."""
    compiled = Setting(mode="compile")
    varied = [Setting(), Setting(threads=8), compiled.replace(threads=8), compiled.replace(batch=2)]
    assert grid.exact(Setting(), varied, SERVER, batch=2).settings == (Setting(), compiled)
    assert grid.exact(Setting(), [compiled], SERVER, batch=2).settings == (Setting(), compiled)


def test_a_search_needs_something_to_search() -> None:
    """And not more than a call can measure."""
    with pytest.raises(UsageError, match="--vary names 0 settings besides the default"):
        grid.exact(Setting(), [Setting()], SERVER, batch=1)
    with pytest.raises(UsageError, match="--vary names 40 settings besides the default; a search needs 1 to 39"):
        grid.exact(Setting(), [Setting(threads=number) for number in range(9, 49)], SERVER, batch=1)

"""The declared list of settings, and what a machine leaves out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_machine import SERVER as EXAMPLE
from example_machine import machine_with

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.plan import Goal
from modelzoo.records.machine import Threads
from modelzoo.records.race import LeftOut, Obstacle
from modelzoo.setting import Setting, choices
from modelzoo.tuning import grid
from modelzoo.tuning.grid import LARGEST, Environment

SERVER = Environment(threads=8, logical=16)


@pytest.mark.parametrize(
    ("goal", "size", "batches"), [(Goal.LATENCY, 44, {None}), (Goal.THROUGHPUT, 52, {None, 8, 32})]
)
def test_the_whole_list_is_short_enough_and_has_no_duplicates(goal: Goal, size: int, batches: set[int | None]) -> None:
    """On a machine that has everything; nothing is dropped. A latency is that of the batch that the user has."""
    found, _ = grid.declared(Setting(), goal, SERVER, batch=2)
    assert (len(found), LARGEST) == (size, 52)
    assert len(set(map(repr, found))) == len(found)
    assert found[0] == Setting(), "the default comes first"
    assert {each.batch for each in found} == batches


def test_every_axis_is_in_the_list() -> None:
    """Each option that the documentation names takes another value than the default's somewhere."""
    found, _ = grid.declared(Setting(), Goal.LATENCY, SERVER, batch=1)
    assert {each.engine for each in found} == set(choices("engine"))
    assert {each.mode for each in found} == {"eager", "compile", "max-autotune", "cpp-wrapper", "aot", "script"}
    assert {each.bf16_method for each in found} == {None, "autocast", "fastmath", "cast"}
    assert {each.threads for each in found} == {None, 4, 16}
    for name in ("channels_last", "malloc", "thp", "primitive_cache", "precision"):
        assert len({getattr(each, name) for each in found}) > 1, name
    on_device, _ = grid.declared(Setting(device="cuda"), Goal.LATENCY, SERVER, batch=1)
    assert [{each.precision for each in kind} & {"int8"} for kind in (found, on_device)] == [{"int8"}, set()]


def test_what_is_missing_is_left_out_with_its_reason() -> None:
    """Once, however many settings it concerns; by the names that options have."""
    missing = (
        LeftOut("precision", "bf16", Obstacle.NO_BF16),
        LeftOut("malloc", "tcmalloc", Obstacle.UNAVAILABLE, "it is not installed"),
        LeftOut("precision", "int8", Obstacle.NO_DATA),
    )
    found, left_out = grid.declared(Setting(), Goal.LATENCY, Environment(8, 16, missing), batch=1)
    assert "tcmalloc" not in {each.malloc for each in found}
    assert {each.precision for each in found} == {"fp32"}
    assert left_out == missing


def test_one_core_has_no_other_number_of_threads() -> None:
    """The axis is left out, and said."""
    found, left_out = grid.declared(Setting(), Goal.LATENCY, Environment(1, 1), batch=1)
    assert {each.threads for each in found} == {None}
    assert LeftOut("threads", None, Obstacle.ONE_CORE) in left_out


def test_a_quota_allows_no_thread_for_each_logical_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more threads than it allows, all of them would be stopped in turns."""
    monkeypatch.setattr(grid, "allowed_cpus", lambda: frozenset(range(128)))
    limited = machine_with(threads=Threads(4, 128, 128, 4.5))
    environment = grid.read_environment(limited, Setting(), has_data=False)
    found, left_out = grid.declared(Setting(), Goal.LATENCY, environment, batch=1)
    assert {each.threads for each in found} == {None, 2}
    assert LeftOut("threads", "8", Obstacle.QUOTA) in left_out
    unlimited = grid.read_environment(machine_with(threads=Threads(64, 64, 128, None)), Setting(), has_data=False)
    assert (unlimited.logical, unlimited.is_limited) == (128, False)


def test_what_the_call_fixes_is_not_varied() -> None:
    """It belongs to the default, and so to every candidate."""
    base = Setting(channels_last=True, threads=2)
    found, left_out = grid.declared(base, Goal.LATENCY, SERVER, batch=1)
    assert all(each.channels_last and each.threads == 2 for each in found)
    assert LeftOut("channels_last", None, Obstacle.FIXED) in left_out


def test_exact_settings_follow_the_default() -> None:
    """The default is measured in any case, and only once, also if it is named by its numbers."""
    compiled = Setting(mode="compile")
    varied = [Setting(), Setting(threads=8), compiled.replace(threads=8), compiled.replace(batch=2)]
    assert grid.exact(Setting(), varied, SERVER, batch=2) == (Setting(), compiled)
    assert grid.exact(Setting(), [compiled], SERVER, batch=2) == (Setting(), compiled)
    for count, given in ((0, [Setting()]), (52, [Setting(threads=number) for number in range(9, 61)])):
        with pytest.raises(UsageError, match=f"--vary names {count} settings besides the default; .* needs 1 to 51"):
            grid.exact(Setting(), given, SERVER, batch=1)


def test_nothing_is_missing_on_a_machine_that_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocators, huge pages, bf16 and engines."""
    monkeypatch.setattr(grid.memory, "locate_library", lambda name: Path("/lib/x.so"))
    monkeypatch.setattr(grid, "installed_version", lambda name: "1.0")
    monkeypatch.setattr(grid.jittor, "interpreter", lambda: "/opt/jittor/bin/python")
    monkeypatch.setattr(grid.memory, "huge_pages_problem", lambda mode, allocator: None)
    found = grid.read_environment(replace(EXAMPLE, has_bf16=True), Setting(), has_data=True)
    assert (found.threads, found.missing) == (EXAMPLE.threads.count, ())


def test_what_is_missing_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the machine itself gives it, without the option that it begins with."""
    monkeypatch.setattr(grid.memory, "locate_library", lambda name: None)
    monkeypatch.setattr(grid, "installed_version", lambda name: None)
    monkeypatch.setenv("MODELZOO_JITTOR", "/nowhere")
    monkeypatch.setattr(grid.memory, "system_mode", lambda: "never")
    missing = grid.read_environment(replace(EXAMPLE, has_bf16=False), Setting(), has_data=False).missing
    found = {(each.field, each.value): each for each in missing}
    assert (found["malloc", "tcmalloc"].problem or "").startswith("libtcmalloc")
    assert (found["thp", "on"].problem or "").startswith("transparent huge pages are off on this machine")
    assert found["precision", "bf16"].obstacle is Obstacle.NO_BF16
    assert found["precision", "int8"].obstacle is Obstacle.NO_DATA
    assert found["engine", "openvino"].obstacle is Obstacle.NOT_INSTALLED
    assert found["engine", "jittor"].problem == (
        "Jittor is not installed, its environment /nowhere does not exist: run scripts/setup-jittor"
    )


def test_a_short_budget_reaches_what_gains_most() -> None:
    """Compiled bf16, and bf16 of OpenVINO, stand before threads, allocators and expensive ways of compiling."""
    found, _ = grid.declared(Setting(), Goal.LATENCY, Environment(8, 16), batch=1)
    first = [(each.precision, each.engine, each.mode) for each in found[:10]]
    assert {("bf16", "torch", "compile"), ("bf16", "openvino", "eager"), ("fp32", "openvino", "eager")} <= {*first}

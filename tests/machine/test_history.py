"""The kept sessions of a machine: one line each, appended, never more than fit, and no error if they are damaged."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from example_machine import SERVER, machine_with
from kept_sessions import kept

from modelzoo.machine import history
from modelzoo.machine.history import (
    add_to_history,
    history_path,
    load_evidence,
    read_history,
    reference_name,
    reference_speed,
)
from modelzoo.stats import Sums


def test_sessions_are_read_as_they_were_kept(tmp_path: Path) -> None:
    """Later ones follow earlier ones, and no other file is left than the lock."""
    path = tmp_path / "deep" / "h.jsonl"
    assert add_to_history([kept(1), kept(1, label="bf16", ratio_spread=0.02)], path)
    assert add_to_history([kept(2, reference=0.002, reference_load="a")], path)
    assert [(level.created[8:10], level.label, level.reference) for level in read_history(path)] == [
        ("01", "fp32", None),
        ("01", "bf16", None),
        ("02", "fp32", 0.002),
    ]
    assert {each.name for each in path.parent.iterdir()} == {"h.jsonl", "h.lock"}


def test_sessions_that_end_at_the_same_time_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading and writing, nobody else writes."""
    write = history.write_atomically

    def slow(path: Path, content: bytes) -> None:
        time.sleep(0.01)
        write(path, content)

    monkeypatch.setattr(history, "write_atomically", slow)
    days = range(1, 9)
    with ThreadPoolExecutor(len(days)) as pool:
        assert all(pool.map(lambda day: add_to_history([kept(day)], tmp_path / "h.jsonl"), days))
    assert sorted(each.created for each in read_history(tmp_path / "h.jsonl")) == [kept(day).created for day in days]


def test_there_may_be_none(tmp_path: Path) -> None:
    """No file, and nothing to add: no file is made."""
    path = tmp_path / "h.jsonl"
    assert read_history(path) == ()
    assert add_to_history([], path)
    assert not path.exists()


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b'{"version": 1}', b"\xff\xfe", b'{"created": 3}', b"\x00" * 20]
)
def test_a_damaged_line_costs_only_itself(damage: bytes, tmp_path: Path) -> None:
    """A truncated or overwritten line is left out; what is added later is read."""
    path = tmp_path / "h.jsonl"
    add_to_history([kept(1)], path)
    path.write_bytes(path.read_bytes() + damage)
    assert read_history(path) == (kept(1),)
    add_to_history([kept(2)], path)
    assert read_history(path) == (kept(1), kept(2))


def test_a_level_that_is_not_positive_is_damaged(tmp_path: Path) -> None:
    """It has no logarithm."""
    path = tmp_path / "h.jsonl"
    add_to_history([kept(1, level=0.0), kept(2)], path)
    assert read_history(path) == (kept(2),)


def test_lines_of_another_version_are_kept_for_the_suite_that_wrote_them(tmp_path: Path) -> None:
    """They are not read, and adding does not remove them."""
    path = tmp_path / "h.jsonl"
    newer = json.dumps({"version": history.HISTORY_VERSION + 1, "level": "fast"})
    path.write_text(newer + "\n")
    add_to_history([kept(1)], path)
    assert read_history(path) == (kept(1),)
    assert path.read_text().splitlines()[0] == newer


def test_the_oldest_lines_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file does not grow without end."""
    monkeypatch.setattr(history, "KEPT", 3)
    path = tmp_path / "h.jsonl"
    for day in (1, 2, 3, 4):
        add_to_history([kept(day)], path)
    assert read_history(path) == (kept(2), kept(3), kept(4))


def test_an_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    """If the directory cannot be made, the function says so and does not raise."""
    (tmp_path / "file").touch()
    assert not add_to_history([kept()], tmp_path / "file" / "h.jsonl")


def test_each_machine_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the cache, by what decides its speed."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    assert history_path(SERVER).is_relative_to(tmp_path)
    assert history_path(SERVER) != history_path(machine_with(cores=2))
    assert history_path(SERVER) == history_path(machine_with(kernel="7.0"))


def test_the_reference_speed_is_the_median_of_the_sessions() -> None:
    """A session counts once, however many settings it had, and other loads do not count."""
    levels = [kept(1, reference=each, reference_load="a") for each in (2.0, 2.0, 2.0, 2.0)]
    levels += [kept(2, reference=4.0, reference_load="a"), kept(3, reference=5.0, reference_load="a")]
    levels += [kept(4, reference=99.0, reference_load="b"), kept(5)]
    assert reference_speed(levels, "a") == 4.0
    assert reference_speed(levels, "c") is None
    assert reference_speed([], "a") is None


SUMS = Sums(8, 7, 0.02, 0.02, 0.015)


def test_what_sessions_showed_of_a_load_is_added_up_by_workload() -> None:
    """Over settings and sessions with the same load; workloads that are not asked for or not known are left out."""
    levels = [kept(day, label=label, reference_load="a", sums=SUMS) for day in (1, 2) for label in ("fp32", "bf16")]
    levels += [kept(3, reference_load="b", sums=SUMS), kept(4, reference_load="a")]
    levels += [kept(5, workload="other", reference_load="a", sums=SUMS)]
    (found,) = load_evidence(levels, "a", ["toy", "new", "toy"])
    assert (found.workload, found.sessions) == ("toy", 2)
    assert (found.sums.pairs, found.sums.freedom) == (32, 28)
    assert found.sums.correlation == pytest.approx(0.75)
    assert load_evidence(levels, "c", ["toy"]) == ()


def test_sums_are_kept_and_impossible_ones_are_damage(tmp_path: Path) -> None:
    """A correlation over 1, or a negative square."""
    path = tmp_path / "h.jsonl"
    damaged = [kept(2, sums=Sums(8, 7, 0.02, 0.02, 0.03)), kept(3, sums=Sums(load=-1.0))]
    add_to_history([kept(1, sums=SUMS), *damaged], path)
    assert read_history(path) == (kept(1, sums=SUMS),)


def test_loads_that_run_at_different_speeds_have_different_names() -> None:
    """By version and threads; numpy's version is named because its BLAS does the work."""
    names = {reference_name(1, 2), reference_name(2, 2), reference_name(1, 4)}
    assert len(names) == 3
    assert all("numpy" in name for name in names)

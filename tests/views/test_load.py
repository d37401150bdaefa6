"""Tables and sentences of measurements under load."""

from __future__ import annotations

from collections.abc import Callable

from load_results import load, measured

from modelzoo.frozen import replace
from modelzoo.records.machine import Throttling
from modelzoo.records.serving import Flaw, GeneratorPlace, InvalidReason, Load, Scenario
from modelzoo.views import load as report

_NONE = Throttling(0, 0.0)


def rows(found: Load) -> list[dict[str, str]]:
    """The table, row by row."""
    columns = report.columns(found)
    return [{column.title: column.cells[index] for column in columns} for index in range(len(columns[0].cells))]


def test_what_a_search_found_is_a_command() -> None:
    """``tests/snapshots`` has the sentence."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    words = ("--find", "--slo", "p99=50ms", "--repeats", "2", "--json=x.json", "-oy.json", "--batch", "1")
    line = report.command(("modelzoo", "load", "toy", *words), found)
    assert line.startswith("modelzoo load toy --slo p99=50ms --batch 1 --rate ")
    assert line.endswith(" --duration 5m")
    assert "--duration" not in report.command(("modelzoo", "load", "toy", *words, "--queries=662"), found)


def test_headlines_of_other_measurements(approved: Callable[[str, str], None]) -> None:
    """A search that was interrupted, found nothing, or does not know its spread; a rate that is valid; a stream."""
    find = load(is_search=True, rate=None, queries=662)
    assert report.command(("modelzoo", "load", "toy"), find) is None
    valid = measured(load(queries=6000, rate=20.0))
    assert rows(valid)[0]["p99 at most (99 %)"].endswith(" ms")
    offline = measured(load(scenario=Scenario.OFFLINE, rate=None, bound=None, queries=200))
    assert "p99" not in rows(offline)[0]
    stream = measured(load(scenario=Scenario.SINGLE_STREAM, rate=None, bound=None))
    found = (find, measured(load(is_search=True, rate=None), seconds=0.2), measured(find), valid, offline, stream)
    approved("said/loads.txt", "".join(f"{report.headline(each)}\n" for each in found))


def test_lines_while_it_runs() -> None:
    """What a batch takes, where the generator is, and each run."""
    found = measured(load(queries=662))
    first, second, third = report.session_lines(found.sessions[0], replace(found, fixed_size=4))
    assert first.startswith("repeat 1 of 1: a request takes 10.")
    assert second == "generator: on CPU 3, which no instance uses"
    assert "each batch is computed as one of 4" in third
    limited = replace(found, topology=replace(found.topology, quota=2.0))
    sleeping = replace(found.sessions[0], generator=GeneratorPlace((3,), True, has_quota=False))
    assert "sleeps between events, because the instances may use" in report.session_lines(sleeping, limited)[1]
    assert report.run_line(found.runs[0], found).startswith("  50.0 requests/s: 662 requests in ")


def test_what_a_quota_stopped_is_shown() -> None:
    """In a column, and in a note; nothing if the quota was not used up."""
    found = measured(load(repeats=2, queries=662))
    first, second = (replace(run, throttling=each) for run, each in zip(found.runs, (Throttling(12, 0.35), _NONE)))
    limited = replace(found, topology=replace(found.topology, quota=2.0), runs=(first, second))
    assert [row["throttled"] for row in rows(limited)] == ["0.35 s in 12 periods", "–"]
    (note,) = (each for each in report.notes(limited) if each.startswith("throttling: "))
    assert note == (
        "throttling: the quota of 2 CPUs was used up 12 times in 1 of 2 runs, and CPUs stopped for 350.0 ms in all, "
        "which is part of the latencies; give the instances less: --cores-per-instance 1"
    )
    quiet = replace(found, runs=(replace(first, throttling=_NONE), second))
    assert not [each for each in report.notes(quiet) if each.startswith("throttling")]
    assert "throttled" not in rows(quiet)[0]


def test_a_dead_instance_that_a_damaged_result_does_not_hold_has_no_reason() -> None:
    """It is named nevertheless."""
    found = measured(load(rate=20.0))
    run = replace(found.runs[0], uses=(), reasons=(InvalidReason(Flaw.DIED, instance=0),))
    assert report.reason_text(run.reasons[0], run, found) == "instance 0 died: unknown"

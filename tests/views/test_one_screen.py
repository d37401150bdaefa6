"""The end of a run fits one screen, and its first lines decide whether to read on."""

from __future__ import annotations

import gzip
from pathlib import Path

import one_screen
import pytest
from fake_runs import evidence, make, result_of
from places import DATA
from printed import printed
from shown_documents import VIEWS

from modelzoo.cli.output import result_lines
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.views import kinds, run

AFTER = 3
"""Lines of a run after its document: the file of a plot, that of the result, and how to see the details."""


def ending(result: Result) -> list[str]:
    """All lines of the end of a run in a terminal of 100 columns, but for the names of files."""
    rows = summary.rows(result)
    return [*printed(run.document(result, rows)).splitlines(), *result_lines(result, rows)]


def test_four_models_in_two_precisions_end_in_one_screen() -> None:
    """Judged, and with warnings; the lines for programs included."""
    said = ending(one_screen.result())
    assert len(said) + AFTER <= 50
    assert max(map(len, said)) <= 100


def test_ten_lines_say_what_is_fastest_by_how_much_and_how_far_to_believe_it() -> None:
    """Which and by how much, whether the kernels and the accuracy are known, what spoiled it, and on which machine."""
    text = " ".join(ending(one_screen.result())[:10])
    for fact in (
        "bf16 is faster than fp32 on 2 of 4 models (1.740× to 2.210×)",
        "kernels verified",
        "accuracy check: 3 VALID, 1 CANNOT JUDGE",
        "NOISY MACHINE: other programs were running",
        "Neoverse-N2, 4 cores",
        "2.210× [2.210, 2.210]  FASTER     VALID",
    ):
        assert fact in text


def test_what_is_valid_is_said_once() -> None:
    """By the table; what could not be judged has a reason."""
    text = "\n".join(ending(one_screen.result()))
    assert text.count("accuracy check:") == 2
    assert "maskrcnn: accuracy check: CANNOT JUDGE" in text


def test_one_process_each_is_said_to_give_no_interval() -> None:
    """Instead of one from 0 to infinity."""
    text = "\n".join(ending(result_of(make([1.0] * 40), make([0.5] * 40, setting=Setting("bf16")))))
    assert "2.00× (one process: no interval)" in text
    assert "one process each cannot show a difference; use --processes 3 or more" in text
    assert "∞" not in text


def test_no_verified_setting_is_not_counted() -> None:
    """``0 of 2 settings`` would be a number where a word does."""
    unknown = evidence(ProofVerdict.UNKNOWN)
    text = ending(
        result_of(
            *(make([1.0] * 40, round=number, evidence=unknown, workload=name) for name in "ab" for number in (0, 1))
        )
    )[0]
    assert "kernels not verified" in text
    assert " 0 of" not in text


STORED = {
    "early-full.json.gz": (
        "no significant difference between bf16 and fp32 on 4 of 4 models",
        "kernels verified",
        "accuracy check: 4 NUMERIC ONLY (random weights)",
        "NOISY MACHINE: speed varied by",
        "0.98× [0.73, 1.33]  AMBIGUOUS",
    ),
    "mlp.json": (
        "no significant difference between bf16 and fp32: 0.80× [0.06, 11.52]",
        "kernels verified",
        "accuracy not checked (random weights)",
        "NOISY MACHINE: other programs were running",
    ),
    "early-strict.json": ("mlp: one forward batch in bf16 takes 300 µs", "ran in ANOTHER precision", "NOISY MACHINE"),
    "failing.json": ("all settings failed", "--device cuda: no cuda device is available here"),
    "early-eff.json": ("failed: efficientnet_lite0: No module named",),
    "early-bert.json": ("bert bf16=autocast: VALID: F1 0.5768 in fp32, 0.5663 in bf16", "20 questions", "pass"),
    "early-ssdlite.json": ("ssdlite bf16=autocast: VALID: box AP 0.5226 in fp32, 0.5234 in bf16", "8 images", "pass"),
}
"""What the first ten lines of results that were really measured say: runs, failures and accuracy checks."""


@pytest.mark.parametrize(
    ("view", "facts"),
    [
        ("tune", ("toy: the fastest is", "speed of the default")),
        ("load-search", ("requests/s pass p99=50ms in each of 2 repeats",)),
        ("throughput", ("has the highest throughput",)),
    ],
)
def test_other_commands_fit_one_screen_and_begin_with_the_answer(view: str, facts: tuple[str, ...]) -> None:
    """A search for the fastest setting, for the highest rate, and for the best configuration of instances."""
    said = printed(VIEWS[view]()).splitlines()
    assert len(said) + AFTER <= 50
    assert max(map(len, said)) <= 100
    first = " ".join(said[:10])
    assert [fact for fact in facts if fact not in first] == []


@pytest.mark.parametrize("name", STORED)
def test_stored_results_fit_one_screen_and_begin_with_the_answer(name: str, tmp_path: Path) -> None:
    """Which is faster and by how much, whether to believe it, whether the accuracy is known, and what spoiled it."""
    path = tmp_path / name.removesuffix(".gz")
    content = (DATA / "results" / name).read_bytes()
    path.write_bytes(gzip.decompress(content) if name.endswith(".gz") else content)
    result = store.read(path)
    view = kinds.of(result)
    said = [*printed(view.document(result, False, False)).splitlines(), *result_lines(result, view.rows(result))]
    assert len(said) + AFTER <= 50
    first = " ".join(said[:10])
    assert [fact for fact in STORED[name] if fact not in first] == []

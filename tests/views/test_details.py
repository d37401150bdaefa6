"""Lines of ``--details`` that are of few results, and what else the snapshots of a run do not show."""

from __future__ import annotations

from collections.abc import Callable

from fake_runs import MACHINE, evidence, make, result_of, shown, warning
from generated_results import generation_run
from printed import headings, printed
from shown_documents import GPU, on_gpu

from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.profile import Bound, Flops
from modelzoo.records.run import Run
from modelzoo.records.run_report import PREFILL, GenerationPhase
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views import findings
from modelzoo.views.details import accelerator_text, ceiling_text, detail_lines, lacking
from modelzoo.views.kinds import run_document, run_kernels


def details(*runs: Run) -> list[str]:
    """Of the first setting of these runs."""
    first, *_ = shown(*runs)
    return detail_lines(first)


def test_starts_with_and_without_compiled_code_are_two_times() -> None:
    """Some processes find it in the cache; a warning says in how many of them it was given."""
    starts = ((2.0, 11.0, 7, (warning("SLOW", "it was slow"),)), (0.5, 1.0, 0, ()), (0.5, 1.2, 0, ()))
    names = ("compile_seconds", "first_answer_seconds", "compiled_libraries", "warnings")
    found = details(*(make([0.05] * 6, round=number, **dict(zip(names, each))) for number, each in enumerate(starts)))
    said = "first answer after the weights were loaded: 11.00 s, compiling included; 1.100 s with compiled code"
    assert f"{said} from the cache" in found
    assert "SLOW: it was slow (in 1 of 3 processes)" in found


def test_the_size_of_weights_and_what_a_recipe_was_calibrated_on() -> None:
    """The size of a quantized model always, known or not; the inputs by the first digits of their digest."""
    known = {"weight_bytes": 1 << 20, "calibration_digest": "0123456789ab" + 52 * "0"}
    said = ["weights 1.0 MiB", "ranges from other inputs of the workload, SHA-256 0123456789ab"]
    for setting, changes, expected in (
        (Setting("int8", recipe="static"), known, said),
        (Setting("int8", recipe="dynamic-x86"), {}, ["weights UNKNOWN"]),
        (Setting(), {}, []),
    ):
        found = details(make([0.1], setting=setting, **changes))
        assert [line for line in found if line.startswith(("weights ", "ranges "))] == expected


def test_of_a_device_little_may_be_known() -> None:
    """What torch cannot tell of it is said."""
    assert accelerator_text(replace(GPU, kind="npu", capability=None, memory=None, driver=None, runtime=None)) == (
        "npu:0: NVIDIA H100"
    )
    assert [line[:24] for line in lacking(replace(GPU, lacks=("timed events", "memory figures")))] == [
        "no time on the device: i",
        "no peak memory of the de",
    ]


def test_a_host_that_waits_for_copies_is_not_said_to_launch() -> None:
    """``tests/snapshots`` has the same without copies, of which it is said, with what helps."""
    rows = summary.rows(on_gpu(include_copies=True))
    said = detail_lines(rows[-1])
    assert "the host issued it, waiting for copies, in 1.850 ms, the device took 1.900 ms" in said
    assert "launch-bound" not in f"{said} {findings.remarks(rows)}"


BOUND = Bound("fp32", 50.0, 200.0, 0.25, None, None, 0.25, "compute")
FLOPS = Flops(5_500_000_000, 1)


def test_the_limit_is_shown_if_it_can_be_known(approved: Callable[[str, str], None]) -> None:
    """An emulated machine has no limit to measure; far from a limit, none binds; the first that counted."""
    measured = (
        {"flops": FLOPS},
        {"flops": FLOPS, "machine": replace(MACHINE, emulator="qemu")},
        {"flops": FLOPS, "bound": replace(BOUND, share_of_roof=0.61, bound_by="memory")},
        {"flops": Flops(2_700_000, 1), "bound": replace(BOUND, gflops=0.42, share_of_ceiling=0.0021)},
        {"flops": replace(FLOPS, missing=("own::mm",)), "bound": BOUND},
        {"flops_problem": "no hooks"},
    )
    runs = [(make(None, error="died"), make([1.0], round=1), make([1.0], round=2, **each)) for each in measured]
    said = [ceiling_text(row) for each in runs for row in shown(*each)]
    approved("said/ceilings.txt", "".join(f"{each}\n" for each in said))


def test_a_condition_that_invalidates_is_called_so() -> None:
    """It is not a mere warning, and never left out; without ``--details``, notes are."""
    codes = ("FP32_NOT_FP32", "NUMA", "SMT", "OUTLIERS")
    found = tuple(warning(code, f"{code} [bold]happened[/]") for code in codes)
    samples = [0.05] * 6
    runs = [make(samples, round=n) for n in (0, 1)]
    runs += [make(samples, workload="other", round=n, warnings=found) for n in (0, 1)]
    result = result_of(*runs)
    text = printed(run_document(result, summary.rows(result)))
    assert "invalid: other: FP32_NOT_FP32 [bold]happened[/]\n" in text, "brackets are text"
    assert [code in text for code in codes] == [True, True, False, False]
    assert text.endswith("\n\n2 more: --details\n")


def test_a_generation_that_was_audited_as_a_whole_is_called_so() -> None:
    """Also if that is because its phases could not be audited alone; one that was has tables of its own."""
    audit, whole = evidence(ProofVerdict.FP32), "kernels of 2 audited passes"
    problem = "the state of a generation cannot be copied: no"
    for phases, title in (((), whole), (("",), "kernels of a prefill and 1 step of decoding"), ((problem,), whole)):
        alone = tuple(GenerationPhase(PREFILL, None if problem else audit, problem) for problem in phases)
        found = result_of(generation_run(0.4, [0.04], phases=alone, evidence=audit))
        assert headings(run_kernels(found))[0] == f"llm fp32: {title}"

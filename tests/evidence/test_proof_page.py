"""docs/proof.md: each of its statements has a test, and its figures are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from fake_runs import evidence
from places import ROOT
from planted_kernels import ROUNDINGS

from modelzoo.evidence import canary, replay
from modelzoo.evidence.probes import INT8_BELOW, SMALL, TINY, VANISHED, noise, relative_error, repetitions, sparse_signs
from modelzoo.evidence.references import rule_of
from modelzoo.records.coverage import FOREIGN_NUMBERS, KNOWN_SHARE
from modelzoo.records.evidence import ACTIVE_SHARE, INACTIVE_SHARE, REFERENCE_SHARE, ProofVerdict
from modelzoo.records.workload import ROUNDED
from modelzoo.views import proof

PAGE = "\n\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("proof.md", "wrong_kernels.md"))
PLANTED = "evidence/test_planted_precision.py::"
REPLAY = "evidence/test_replay.py::"
SUBNORMAL = "evidence/test_subnormal.py::"
PRECISION = "evidence/test_precision.py::"
COVERAGE = "evidence/test_coverage.py::"
VERDICT = "evidence/test_verdict.py::"
ATTRIBUTION = "evidence/test_attribution.py::"
AUDIT = "evidence/test_audit.py::"
MEASUREMENT = "measure/test_measurement.py::"
GENERATING = "measure/test_generating.py::"
WRONG = "evidence/test_wrong.py::"
SWEEP = "benchmarks/test_wrong_kernels.py::"
WHOLE = "measure/test_kept_inputs.py::test_the_outputs_of_the_whole_model_must_be_off_as_its_precision_explains"
HERE = "evidence/test_proof_page.py::"

TESTS: dict[str, tuple[str, ...]] = {
    "After the last timed sample": (MEASUREMENT + "test_a_report_is_complete",),
    "The verdict on fp32 is VERIFIED": (HERE + "test_the_page_names_all_verdicts",),
    "`--strict` fails unless": (
        "results/test_summary.py::test_strict_objects_to_what_is_not_proven",
        HERE + "test_the_shares_of_the_page_are_those_of_the_code",
    ),
    "With torch on a CPU, one call": (AUDIT + "test_what_was_printed_during_an_operator_is_its_own",),
    "What they log outside": (
        AUDIT + "test_what_is_printed_between_operators_is_no_operators",
        ATTRIBUTION + "test_what_is_printed_outside_operators_ran_in_generated_code",
    ),
    "Operations are counted": ("evidence/test_flops.py::test_as_torch_counts",),
    "A generation is recorded": (
        GENERATING + "test_each_phase_of_the_recorded_generation_has_an_audit",
        GENERATING + "test_what_late_steps_do_is_found",
    ),
    "Passes on [accelerators]": ("evidence/test_device_attribution.py::test_a_pass_on_a_device_is_recorded",),
    "Other engines list": (
        "engines/onnxruntime/test_profile_log.py::test_fp32_is_proven_if_the_canary_confirms_every_class",
    ),
    "Every process also runs": ("evidence/test_canary.py::test_fp32_is_seen_as_fp32",),
    "A process that is not audited in full": (
        MEASUREMENT + "test_a_process_that_is_not_audited_in_full_names_its_kernels",
        "results/test_proof.py::test_a_process_with_other_kernels_is_not_proven",
    ),
    "The verdict on the setting": ("results/test_proof.py::test_the_least_favourable_verdict_decides",),
    "The first process of a setting calls": (
        REPLAY + "test_distinct_products_are_called_once_more",
        REPLAY + "test_strides_make_a_product_of_its_own",
        REPLAY + "test_a_replay_has_the_switches_threads_and_layout_of_the_pass",
        HERE + "test_operands_are_noise_and_outputs_are_sampled",
        HERE + "test_products_with_few_outputs_are_called_several_times",
    ),
    "The relative root-mean-square": (REPLAY + "test_what_a_kernel_rounds_to_is_shown_by_the_error",),
    "| error |": (),
    "| below 3": (
        REPLAY + "test_the_reference_is_what_the_operator_computes",
        HERE + "test_winograds_algorithm_in_fp32_is_fp32",
    ),
    "| below 6": (HERE + "test_errors_of_rounded_numbers_are_those_of_the_page",),
    "| below 4.5": (HERE + "test_errors_of_rounded_numbers_are_those_of_the_page",),
    "| below 2": (HERE + "test_what_integers_lose_is_kept_by_bf16_and_fp16",),
    "| otherwise |": (REPLAY + "test_what_a_kernel_rounds_to_is_shown_by_the_error",),
    "A replay counts only if": (
        REPLAY + "test_a_replay_that_runs_other_kernels_does_not_count",
        REPLAY + "test_a_replay_whose_log_cannot_be_read_counts_if_it_printed_the_same",
    ),
    "The time for replays is": (
        REPLAY + "test_slow_passes_leave_less_time_for_replays",
        HERE + "test_the_thresholds_of_the_page_are_those_of_the_code",
        "engines/torch/test_replays.py::test_the_time_is_not_limited_on_an_emulated_processor",
    ),
    "A product that was not replayed": (
        REPLAY + "test_what_cannot_be_compared_says_why",
        REPLAY + "test_the_time_is_limited_and_what_was_left_out_is_recorded",
        PRECISION + "test_the_canary_speaks_for_those_that_were_not_replayed",
    ),
    "The product of two bf16 numbers": (
        HERE + "test_products_of_bf16_numbers_are_exact_in_fp32",
        REPLAY + "test_a_conversion_to_fp32_is_not_told_from_a_bf16_instruction",
    ),
    "Each is called once more": (
        SUBNORMAL + "test_products_are_subnormal_and_their_sums_are_normal",
        SUBNORMAL + "test_attention_has_operands_of_its_own",
    ),
    "| outputs |": (),
    "| exactly 0": (
        SUBNORMAL + "test_a_kernel_shows_whether_it_flushes",
        SUBNORMAL + "test_recorded_products_are_judged_without_their_log",
    ),
    "| the exact sums, on x86": (
        SUBNORMAL + "test_recorded_products_are_judged_without_their_log",
        PLANTED + "test_bf16_that_is_multiplied_in_fp32_is_not_active",
    ),
    "| the exact sums, on other": (SUBNORMAL + "test_a_kept_sum_shows_nothing_where_bf16_instructions_may_keep_it",),
    "| some are 0": (SUBNORMAL + "test_the_verdict_follows_from_subnormal_products",),
    "The probe says nothing if": (
        SUBNORMAL + "test_nothing_is_said_where_fp32_flushes_too",
        SUBNORMAL + "test_what_cannot_be_probed",
    ),
    "If all products that were probed": (SUBNORMAL + "test_the_verdict_follows_from_subnormal_products",),
    "Where nothing was probed": (
        SUBNORMAL + "test_the_verdict_follows_from_subnormal_products",
        PRECISION + "test_bf16_in_kernels_that_no_log_names_is_said",
    ),
    "Each sampled output is also": (
        WRONG + "test_garbage_is_wrong",
        WRONG + "test_one_wrong_column_of_many_is_found",
        WRONG + "test_a_known_precision_is_not_wrong",
    ),
    "A NaN in one row": (WRONG + "test_a_nan_that_reaches_another_row_is_wrong",),
    "Otherwise the verdict is **WRONG": (
        PLANTED + "test_wrong_results_are_said_first",
        "views/test_reproducer.py::test_a_script_is_written_beside_the_result_and_runs_alone",
        SWEEP + "test_the_faults_of_the_page_are_called",
    ),
    "It is VERIFIED or ACTIVE": (PLANTED + "test_fp32_is_proven_where_nothing_is_planted",),
    "Products of known precision": (
        COVERAGE + "test_five_percent_of_the_arithmetic_may_be_unknown",
        COVERAGE + "test_more_of_one_kind_makes_up_for_no_other",
        HERE + "test_the_shares_of_the_page_are_those_of_the_code",
    ),
    "An operator that is neither": (
        VERDICT + "test_an_operator_that_is_not_known_makes_it_unknown_however_little_it_does",
        PLANTED + "test_an_operator_that_nobody_knows_is_unknown",
    ),
    "Where everything is listed": (
        COVERAGE + "test_five_percent_of_the_time_may_be_unknown_where_everything_is_listed",
    ),
    "For fp32, no product": (
        PLANTED + "test_fp32_is_refused",
        VERDICT + "test_bf16_in_an_fp32_run",
    ),
    "For a reduced one": (
        VERDICT + "test_thresholds",
        VERDICT + "test_the_arithmetic_decides_and_not_the_time",
        PLANTED + "test_bf16_is_refused_if_layers_ran_in_less",
    ),
    "For int8, only": (PLANTED + "test_int8_by_a_recipe_is_active",),
    "Every line of oneDNN's log": (
        PLANTED + "test_a_line_of_the_log_that_cannot_be_read_is_judged_by_where_it_was_printed",
        VERDICT + "test_a_narrow_reorder_without_a_product_is_not_proven",
    ),
    "The recorded pass has the outputs": (
        PLANTED + "test_a_model_that_notices_the_audit_is_unknown",
        PLANTED + "test_constants_that_a_model_writes_in_python_are_no_product",
    ),
    "The outputs of a model that is": (
        WHOLE,
        "engines/torch/test_execution.py::test_outputs_in_bf16_come_with_what_rounding_causes",
        HERE + "test_the_shares_of_the_page_are_those_of_the_code",
    ),
    "Networks that magnify": (
        "results/test_proof.py::test_outputs_must_be_off_as_the_precision_explains",
        "views/test_proof.py::test_what_proves_a_setting",
        "measure/test_kept_inputs.py::test_random_outputs_are_no_fault_of_the_mode",
        "engines/torch/test_execution.py::test_what_is_not_compared_in_bf16",
    ),
    "For fp32, every product has": (
        PRECISION + "test_each_product_answers_for_itself",
        VERDICT + "test_fp32_needs_a_clean_canary",
        PRECISION + "test_the_canary_speaks_for_those_that_were_not_replayed",
    ),
    "The precision of a product is the first": (
        "evidence/test_kernel_names.py::test_the_name_of_a_product_counts_more_than_its_types",
        PRECISION + "test_own_proof",
        PRECISION + "test_log_and_error_that_disagree_are_a_finding",
        VERDICT + "test_recorded_logs_operator_by_operator",
        VERDICT + "test_autocast_that_leaves_operators_in_fp32",
    ),
    "No name of a kernel is needed": (PLANTED + "test_no_name_of_a_kernel_is_needed_in_eager_mode",),
    "It is for what generated code": (
        "engines/onnxruntime/test_profile_log.py::test_fp32_is_proven_if_the_canary_confirms_every_class",
        VERDICT + "test_an_operator_that_is_not_known_makes_it_unknown_however_little_it_does",
        PLANTED + "test_products_in_templates_of_max_autotune_are_unknown",
    ),
    "Each of these was tried": (PLANTED + "test_every_product_of_an_honest_network_answers_for_itself",),
    "one layer whose kernel": (
        PLANTED + "test_a_kernel_that_rounds_at_one_shape_is_caught",
        PLANTED + "test_a_kernel_that_rounds_is_caught_in_a_model_that_is_not_eager",
    ),
    "bf16, fp16, int8 or fp8": (PLANTED + "test_fp32_is_refused",),
    "an operator of an extension": (PLANTED + "test_an_operator_that_nobody_knows_is_unknown",),
    "a product in numpy": (
        PLANTED + "test_a_product_outside_torch_is_unknown",
        PLANTED + "test_a_product_in_a_function_of_c_is_unknown",
        PLANTED + "test_a_product_outside_torch_is_unknown_in_a_model_that_is_not_eager",
    ),
    "a model that computes otherwise": (PLANTED + "test_a_model_that_notices_the_audit_is_unknown",),
    "Not caught": (PLANTED + "test_what_is_not_caught",),
    "a kernel that rounds internally": (
        PLANTED + "test_the_products_of_a_model_that_is_not_eager_answer_for_themselves_or_are_left_to_the_canary",
    ),
    "a model that detects the audit": (
        PLANTED + "test_a_model_that_counts_its_calls_is_not_caught",
        PLANTED + "test_random_outputs_cannot_be_compared",
    ),
    "a product outside torch whose": (PLANTED + "test_what_is_not_caught",),
    "operands that were rounded": (PLANTED + "test_what_is_not_caught",),
    "fp32 emulated by": (REPLAY + "test_two_bf16_numbers_in_place_of_one_in_fp32_are_not_told_apart",),
    "A kernel may also compute wrong": (SWEEP + "test_planted_faults_are_found",),
    "These are wrong on an Intel": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "| wrong call |": (),
    "| bf16 grouped 1-D": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "| bf16 matmul, K": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "| fp16 depthwise": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "Faults that were reported": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "`python benchmarks/wrong_kernels.py`": (SWEEP + "test_the_faults_of_the_page_are_called",),
    "It compares every output": (
        SWEEP + "test_planted_faults_are_found",
        SWEEP + "test_one_lost_product_of_many_is_more_than_rounding",
        SWEEP + "test_honest_products_are_not_wrong",
    ),
    "On an AMD EPYC with AVX2": (SWEEP + "test_the_map_shows_where_a_convolution_is_wrong",),
    "Without oneDNN, transposed": (
        SWEEP + "test_a_transposed_convolution_may_add_the_positions_of_its_kernel_in_its_own_type",
    ),
}
"""The tests of each statement, by its first words; the heads of tables claim nothing."""


def statements(page: str) -> Iterator[str]:
    """The sentences of the page, the items of its lists and the rows of its tables, without headings and commands."""
    page = re.sub(r"```.*?```", "\n", page, flags=re.DOTALL)
    page = re.sub(r"^(#.*|\|[-|]+)$", "\n", page, flags=re.MULTILINE)
    page = re.sub(r"^(?=- |\d\. |\|)", "\n", page, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", page):
        text = re.sub(r"^(- |\d\. )?(\*\*.*?\*\* )?", "", " ".join(block.split()))
        if text:
            yield from re.split(r"(?<=[.;]) (?=[A-Z`])", text)


def test_each_statement_has_a_test() -> None:
    """One that is added or changed at its beginning must be mapped here, and nothing is left of those that went."""
    found = [[words for words in TESTS if statement.startswith(words)] for statement in statements(PAGE)]
    assert [statement for statement, words in zip(statements(PAGE), found) if len(words) != 1] == []
    assert sorted(words for each in found for words in each) == sorted(TESTS)


def test_the_tests_of_the_page_exist() -> None:
    """By file and name."""
    for test in {test for tests in TESTS.values() for test in tests}:
        path, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), test


def test_the_page_names_all_verdicts() -> None:
    """In the words of the output."""
    of_fp32, _, of_reduced = PAGE[PAGE.index("The verdict on fp32") : PAGE.index("`--strict`")].partition(";")
    of_fp32, of_reduced = " ".join(of_fp32.split()), " ".join(of_reduced.split())
    both = {ProofVerdict.UNKNOWN, ProofVerdict.WRONG_RESULTS}
    fp32 = {ProofVerdict.FP32, ProofVerdict.NOT_FP32, *both}
    for verdict in ProofVerdict:
        words = str(proof.audit(evidence(verdict))).split(": ")[1].split(" (")[0].removeprefix("REQUESTED, ")
        assert (words in of_fp32) is (verdict in fp32)
        assert (words in of_reduced) is (verdict not in fp32 - both)


def test_the_shares_of_the_page_are_those_of_the_code() -> None:
    """Of a pass that is known, of a reduced precision, of reference kernels, and numbers from outside."""
    found = (KNOWN_SHARE, ACTIVE_SHARE, INACTIVE_SHARE, REFERENCE_SHARE, FOREIGN_NUMBERS)
    assert found == (0.95, 0.90, 0.01, 0.01, 256)
    assert ROUNDED == 3.0


def test_the_thresholds_of_the_page_are_those_of_the_code() -> None:
    """In its table, and the seconds for replays."""
    rows = re.findall(r"^\| below ([\d.]+) × 10⁻(.) \|", PAGE, re.MULTILINE)
    wanted = (canary.FP32_BELOW, canary.BF16_FROM, canary.BF16_BELOW, INT8_BELOW)
    powers = {"²": -2, "³": -3, "⁴": -4, "⁵": -5}
    assert [float(factor) * 10 ** powers[power] for factor, power in rows] == pytest.approx(wanted)
    assert (TINY, SMALL) == (2.0**-30, 2.0**-10)
    limits = [replay.budget_after(seconds) for seconds in (3.0, 4.0, 7.0, 60.0)]
    assert limits == [6.0, 5.0, 2.0, 2.0]
    said = "6 s or, if a pass takes more than 3 s, to 9 s minus the duration of that pass, but never to less than 2 s"
    assert said in " ".join(PAGE.split())


def test_operands_are_noise_and_outputs_are_sampled() -> None:
    """Mean 0, standard deviation 1; of a large product, some outputs are computed in fp64, of every channel."""
    block = noise(3)
    assert abs(float(block.mean())) < 0.02
    assert float(block.std()) == pytest.approx(1, abs=0.02)
    rule = rule_of("aten::mm")
    assert rule is not None
    exact = rule.expected(torch.zeros(500, 8), torch.zeros(8, 900)).exact
    assert (exact.dtype, tuple(exact.shape)) == (torch.float64, (32 * 64 + 3 * 900,))


def test_products_with_few_outputs_are_called_several_times() -> None:
    """Until there are 32 outputs."""
    assert [repetitions(outputs) for outputs in (1, 10, 31, 32, 5000)] == [32, 4, 2, 1, 1]


def test_products_of_bf16_numbers_are_exact_in_fp32() -> None:
    """8 significant bits by 8 need 16 of the 24."""
    left, right = noise(0).bfloat16().float(), noise(1).bfloat16().float()
    assert torch.equal((left * right).double(), left.double() * right.double())


@pytest.mark.parametrize(("rounding", "unit"), [("bf16", 1.0), ("tf32", 0.125), ("fp16", 0.125)])
def test_errors_of_rounded_numbers_are_those_of_the_page(rounding: str, unit: float) -> None:
    """From one number that is rounded to attention that rounds its operands, weights and output."""
    rounded = ROUNDINGS[rounding]
    rows, weights, values = (noise(seed)[: 64 * 64].reshape(64, 64) for seed in range(3))
    exact = rows.double() @ weights.double()
    one = relative_error([(rounded(exact.float()), exact)])
    three = relative_error([(rounded(rounded(rows) @ rounded(weights)), exact)])
    attended = (exact / 8).softmax(-1) @ values.double()
    scores = (rounded(rows) @ rounded(weights) / 8).softmax(-1)
    most = relative_error([(rounded(rounded(scores) @ rounded(values)), attended)])
    assert 1.2e-3 * unit < one < three < most < 3.8e-3 * unit
    assert ("1.2 to 3.8 × 10⁻³" if unit == 1 else "1.5 to 4.8 × 10⁻⁴") in PAGE


def test_what_integers_lose_is_kept_by_bf16_and_fp16() -> None:
    """Numbers of 2**-10 beside numbers of 1."""
    numbers = sparse_signs(0)
    small = numbers.abs() < 1
    assert torch.equal(ROUNDINGS["bf16"](numbers), numbers)
    assert torch.equal(ROUNDINGS["fp16"](numbers), numbers)
    assert not ROUNDINGS["int8"](numbers)[small].any()
    assert small.sum() * SMALL**2 / numbers.pow(2).sum() > VANISHED**2


def test_winograds_algorithm_in_fp32_is_fp32() -> None:
    """F(4, 3), whose constants lose more bits than those of smaller tiles (Lavin and Gray 2016), in two dimensions."""
    b = [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0]]
    b += [[0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]
    g = [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6]]
    g += [[1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]
    a = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    images, filters = noise(0)[: 64 * 36].reshape(64, 6, 6), noise(1)[: 64 * 32 * 9].reshape(32, 64, 3, 3)

    def convolved(dtype: torch.dtype) -> torch.Tensor:
        to_tile, to_filter, to_output = (torch.tensor(each, dtype=dtype) for each in (b, g, a))
        tiles = to_tile @ images.to(dtype) @ to_tile.t()
        return to_output @ (to_filter @ filters.to(dtype) @ to_filter.t() * tiles).sum(1) @ to_output.t()

    exact = torch.nn.functional.conv2d(images.double()[None], filters.double())[0]
    torch.testing.assert_close(convolved(torch.float64), exact)
    assert 1e-7 < relative_error([(convolved(torch.float32), exact)]) < 1e-5

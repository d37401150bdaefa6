"""Which kernels and operators took the time."""

from __future__ import annotations

from fake_runs import evidence, make, result_of

from modelzoo.document import Details, Table, lines
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.profile import OperatorRow, Profile
from modelzoo.results import summary
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views import kernel_tables

PROOF = replace(
    evidence(ProofVerdict.FP32), by_implementation=(TimeShare("gemm:jit", 1.0, 1.0, 4),), problems=("a problem",)
)
PROFILE = Profile(2, 0.2, (OperatorRow("aten::mm", ((2, 3), (3, 2)), 4, 0.1, 0.5),), (), None, ())


def rows() -> list[SummaryRow]:
    """fp32 in two processes, of which the second was audited and profiled, and bf16 in one that was not."""
    result = result_of(
        make([1.0]),
        make([1.0], round=1, evidence=PROOF, profile=PROFILE),
        make([1.0], setting=Setting("bf16"), group=1),
    )
    return summary.rows(result)


def test_the_first_audit_of_a_setting_is_shown() -> None:
    """With its problems; a setting without one has none."""
    [found] = kernel_tables.kernel_details(rows())
    assert isinstance(found, Details)
    assert found.summary == "Kernels of fp32, 2 audited passes"
    first = found.blocks[0]
    assert isinstance(first, Table)
    assert first.rows[0][0] == "gemm:jit"
    assert found.blocks[-1] == lines("a problem")


def test_profiles_are_tables_of_operators() -> None:
    """By shapes."""
    [found] = kernel_tables.operator_details(rows())
    assert isinstance(found, Details)
    assert found.summary == "Operators of fp32, 2 profiled passes"
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert table.rows[0][:2] == ("aten::mm", "2×3, 3×2")

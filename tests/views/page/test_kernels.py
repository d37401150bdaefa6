"""Which kernels and operators took the time."""

from __future__ import annotations

from fake_runs import evidence, make, result_of

from modelzoo.document import Table, lines
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


def test_the_first_audit_of_a_setting_is_shown_and_its_first_profile() -> None:
    """With its problems, and operators by shapes; a setting without one has none."""
    first, other = rows()
    [(title, blocks)] = kernel_tables.kernel_parts(first, "fp32")
    assert title == "fp32: kernels of 2 audited passes"
    assert isinstance(blocks[0], Table)
    assert blocks[0].rows[0][0] == "gemm:jit"
    assert blocks[-1] == lines("a problem")
    [(title, (table, *_))] = kernel_tables.operator_parts(first, "fp32")
    assert title == "fp32: operators, 2 passes profiled after the timing"
    assert isinstance(table, Table)
    assert table.rows[0][:2] == ("aten::mm", "2×3, 3×2")
    assert [*kernel_tables.kernel_parts(other, "bf16"), *kernel_tables.operator_parts(other, "bf16")] == []

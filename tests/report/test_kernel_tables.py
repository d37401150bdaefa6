"""Tables of evidence and profiles, from records alone."""

from __future__ import annotations

import io
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import (
    ClassVerdict,
    Evidence,
    LogSource,
    OperatorClass,
    ProofSource,
    ProofVerdict,
    TimeShare,
)
from modelzoo.records.profile import LayerRow, OperatorRow, Profile
from modelzoo.report.kernel_tables import evidence_tables, profile_tables, shapes_text

EVIDENCE = Evidence(
    requested="bf16",
    bf16_method="cast",
    verdict=ProofVerdict.ACTIVE,
    detail="",
    line="",
    decided_by=(ProofSource.BOTH,),
    iterations=2,
    seconds=1.0,
    compute_seconds=0.8,
    compute_bf16_share=1.0,
    unattributed_share=0.05,
    reference_share=0.2,
    reference_kernels=("oneDNN ref:any",),
    classes=(
        ClassVerdict(OperatorClass.CONV, 0.8, 1.0, ("bf16",), (ProofSource.BOTH,), 1.8e-3, CanaryLevel.BF16),
        ClassVerdict(OperatorClass.MATMUL, 0.0, 0.0, ("fp32",), (ProofSource.DATA_TYPES,), None, None),
    ),
    by_implementation=(TimeShare("openblas sbgemm", 0.6, 0.6, 4), TimeShare("oneDNN ref:any", 0.4, 0.4, 2)),
    by_precision=(TimeShare("bf16", 0.8, 0.8, 6), TimeShare("unattributed", 0.2, 0.2, 0)),
    by_operator=tuple(TimeShare(f"aten::op{index}", 0.05, 0.05, 2) for index in range(20)),
    operators=(),
    onednn_version="3.7.1",
    onednn_isa="",
    blas="openblas 0.3.30 neoversen2",
    log_source=LogSource.RUNTIME_SWITCH,
    problems=(),
)
PROFILE = Profile(
    iterations=2,
    seconds=1.0,
    operators=(
        OperatorRow("aten::mm", ((4, 8), (8, 2)), 2, 0.5, 0.5, 10**9, 10**8, "mkl sgemm", "fp32"),
        OperatorRow("aten::view", (), 2, 0.0, 0.0),
    ),
    layers=(LayerRow("backbone.conv1", "Conv2d", 2, 0.6, 0.4, 0.6, 3 * 10**9),),
    flops=None,
    trace=None,
    problems=("a problem",),
)


def text(tables: list[Table]) -> list[str]:
    """The lines of the printed tables, words separated by single spaces."""
    console = Console(width=240, file=io.StringIO(), record=True)
    for table in tables:
        console.print(table)
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_evidence_is_shown_per_pass() -> None:
    """Times and calls are divided by the passes; captions name unattributed time and reference kernels."""
    lines = text(evidence_tables(EVIDENCE))
    assert "openblas sbgemm 300.000 60.0 % 2" in lines
    assert "conv 400.000 100.0 % bf16 1.8e-03 bf16 both" in lines
    assert "matmul 0.000 0.0 % fp32 – data types" in lines
    assert "unattributed: 5.0 % of the time; reference kernels (oneDNN ref:any): 20.0 %" in " ".join(lines)


def test_further_operators_are_summed_up() -> None:
    """Only the longest operators are listed, and the table still adds up."""
    lines = text([evidence_tables(EVIDENCE, operators=3)[-1]])
    assert lines[-1] == "17 others 425.000 85.0 % 17"


def test_the_blas_is_named_if_one_of_its_kernels_ran() -> None:
    """The caption has its version and core, which decide its kernels."""
    assert evidence_tables(EVIDENCE)[0].caption == "BLAS: openblas 0.3.30 neoversen2"
    native = replace(EVIDENCE, by_implementation=(TimeShare("native bf16", 1.0, 1.0, 2),))
    assert evidence_tables(native)[0].caption is None


def test_profile_by_operator_and_layer() -> None:
    """Rates stand beside the times; an operator without operations has none."""
    by_operator, by_layer = profile_tables(PROFILE)
    lines = text([by_operator])
    assert "aten::mm 4×8, 8×2 250.000 50.0 % 1 2.0 0.2 10.0 mkl sgemm fp32" in lines
    assert "aten::view 0.000 0.0 % 1 – – –" in lines
    assert by_operator.caption == "a problem"
    assert "backbone.conv1 Conv2d 200.000 300.000 60.0 % 1 5.0" in text([by_layer])


def test_a_profile_without_layers_has_one_table() -> None:
    """Compiled models have no layers to show."""
    assert len(profile_tables(replace(PROFILE, layers=()))) == 1


def test_shapes_are_cut_after_three() -> None:
    """Long argument lists do not widen the table."""
    assert shapes_text(((1, 2), (3,), (4,), (5,))) == "1×2, 3, 4 …"


def test_tables_need_no_torch() -> None:
    """Stored results are shown on machines without torch."""
    code = "import sys; sys.modules['torch'] = None; import modelzoo.report.kernel_tables"
    subprocess.run([sys.executable, "-c", code], check=True)

"""A script shows outside the suite that a product is wrong, or ran in another precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_runs import WRONG_CONV, evidence, make
from planted_kernels import ROUNDINGS, planted, replaced, replayed
from torch.nn import functional

from modelzoo.cli.files import write_reproducers
from modelzoo.frozen import replace
from modelzoo.records.coverage import Argument, ProductCall, WrongOutputs
from modelzoo.records.evidence import Evidence, Product, ProofVerdict
from modelzoo.records.run import Result, SettingRequest
from modelzoo.setting import Setting
from modelzoo.views import proof
from modelzoo.views.recipe import MOST, script, scripts

CONVOLUTION: Callable[..., torch.Tensor] = torch.ops.aten._convolution


def garbage(*args: Any) -> torch.Tensor:
    output = CONVOLUTION(*args, False, False, True, True)
    return output if output.dtype is torch.float64 else output.roll(1, 1)


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.addmm(left.new_zeros(1), left, right)


def reads_on(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    output = product(left, right)
    output[:-1] += 0 * left[1:, :1]
    return output


def infinite(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    output = product(left, right)
    if output.dtype is not torch.float64:
        output[0, 0] = torch.inf
    return output


X, W = torch.randn(1, 128, 49).bfloat16(), torch.randn(128, 8, 16).bfloat16()
LEFT, RIGHT = torch.randn(64, 33).half(), torch.randn(33, 40).half()


def convolved() -> object:
    return functional.conv1d(X, W, padding=8, groups=16)


def multiplied() -> object:
    return LEFT @ RIGHT


def rounded() -> object:
    return functional.linear(LEFT.float(), RIGHT.float().t(), torch.ones(40))


FAULTS = {
    "garbage": (convolved, lambda: replaced("convolution", garbage), "error"),
    "not finite": (multiplied, lambda: replaced("mm", infinite), "not finite"),
    "other row": (multiplied, lambda: replaced("mm", reads_on), "other row"),
    "precision": (rounded, lambda: planted("addmm", ROUNDINGS["bf16"]), None),
}


def found_by_a_replay(call: Callable[[], object]) -> Product:
    with torch.inference_mode():
        (found,) = replayed(call).products
    return replace(found, call=replace(found.call, least=0.0, below=3e-5))


def exit_code(text: str) -> object:
    """Of the script, run in this process, where the operator may be replaced."""
    with pytest.raises(SystemExit) as ended:
        exec(compile(text, "reproducer.py", "exec"), {"__name__": "__main__"})
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", FAULTS)
def test_the_script_fails_as_long_as_the_operator_is_wrong(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its operands are those of the replay; where the operator is right, it passes."""
    call, fault, kind = FAULTS[name]
    with fault():
        found = found_by_a_replay(call)
        assert (found.wrong.fault if found.wrong else None) == kind
        text = script(found, found.call, evidence(ProofVerdict.WRONG_RESULTS))
        assert exit_code(text) == 1
    assert exit_code(text) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert "import modelzoo" not in text


CALL = ProductCall(
    "aten.mm.default",
    (
        Argument(shape=(8, 33), strides=(33, 1), dtype="bfloat16", seed=0),
        Argument(shape=(33, 8), strides=(1, 33), dtype="bfloat16", seed=1),
    ),
    factors=(0, 1),
    rows=0,
)


def result_of(*products: Product) -> Result:
    found: Evidence = replace(evidence(ProofVerdict.WRONG_RESULTS), products=products)
    run = make([1.0], setting=Setting("bf16"), evidence=found)
    return Result((), "2026-11-27T08:00:00+00:00", (SettingRequest("resnet50", Setting("bf16")),), (run,))


def test_a_script_is_written_beside_the_result_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the threads and variables of the process; its path is said after it is there, or why it is not."""
    said = []
    product = replace(WRONG_CONV, call=CALL)
    write_reproducers(
        tmp_path / "r.json", result_of(product), lambda line: said.append((line, list(tmp_path.iterdir())))
    )
    path = tmp_path / "r_wrong_encoder.pos_conv_embed.conv.py"
    assert said == [(f"reproducer: {path}", [path])]
    assert exit_code(path.read_text()) == 0
    assert "0 of 64 outputs are wrong; relative error " in capsys.readouterr().out
    lines: list[str] = []
    write_reproducers(tmp_path / "gone" / "r.json", result_of(product), lines.append)
    assert [line.split(":")[0] for line in lines] == ["no reproducer"]


def test_each_kernel_has_one_script() -> None:
    """A kernel may be wrong in a hundred layers."""
    layers = [replace(WRONG_CONV, call=CALL, layers=(str(each),)) for each in range(100)]
    kernels = [replace(each, kernels=(each.layers[0],)) for each in layers]
    assert len(scripts(result_of(*layers))) == 1
    assert len(scripts(result_of(*kernels))) == MOST


def test_a_fault_is_said_with_layer_shapes_and_kernel() -> None:
    """In one sentence."""
    for wrong, text in (
        (WrongOutputs("error", 4, 64, 0.016, 12.34), "4 of 64 outputs are off, up to 12 times as far as rounding"),
        (WrongOutputs("not finite", 4, 64, 0.016), "4 of 64 outputs are not finite where the exact ones are"),
        (WrongOutputs("other row", 1, 8, 0.016), "a NaN in one row of its left operand spoils 1 of 8 rows"),
    ):
        found = replace(evidence(ProofVerdict.WRONG_RESULTS), products=(replace(WRONG_CONV, wrong=wrong),))
        said = str(proof.audit(found))
        assert said.startswith("bf16: WRONG RESULTS (aten::convolution in encoder.pos_conv_embed.conv (bf16, 1×128×49")
        assert "kernel: oneDNN brg_conv_fwd:avx10_1_512_amx" in said
        assert text in said

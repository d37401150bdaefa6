"""Every product of a pass answers for itself: it is called again and compared with fp64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from planted_kernels import ROUNDINGS, only, planted, print_line, replaced, replayed
from torch import nn
from torch.nn import functional

from modelzoo.evidence.kernel_names import COARSE
from modelzoo.records.evidence import NotReplayed


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


@pytest.mark.parametrize(("what", "least"), [("weights", 0.2), ("activations", 0.3), ("nothing", 0.0)])
def test_subnormal_numbers_of_products_are_counted(what: str, least: float) -> None:
    """Of weights and of what layers pass on, in the pass that is observed; CPUs compute with them very slowly."""
    layers = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    with torch.no_grad():
        layers[1].weight.mul_(1e-41 if what == "weights" else 1)
    rows = noise(64, 64) * (1e-40 if what == "activations" else 1)
    for found in (replayed(lambda: layers(rows)), replayed(lambda: layers(rows), replays=False)):
        assert least <= found.subnormal <= (1 if least else 0)


IMAGE = (2, 8, 12, 12)
CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "conv": lambda: _layer(nn.Conv2d(8, 16, 3, stride=2, padding=1), *IMAGE),
    "depthwise": lambda: _layer(nn.Conv2d(8, 8, 3, groups=8, padding=1), *IMAGE),
    "grouped": lambda: _layer(nn.Conv2d(8, 12, (3, 2), groups=4, dilation=2), *IMAGE),
    "channels last": lambda: _layer(nn.Conv2d(8, 4, 3), *IMAGE, layout=torch.channels_last),
    "conv1d": lambda: _layer(nn.Conv1d(8, 4, 3, padding="same"), 2, 8, 20),
    "conv3d": lambda: _layer(nn.Conv3d(1, 4, 3), 1, 1, 5, 6, 7),
    "transposed": lambda: _layer(nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1, padding=1, groups=2), *IMAGE),
    "linear": lambda: _layer(nn.Linear(64, 32), 3, 5, 64),
    "one row": lambda: _layer(nn.Linear(64, 32), 1, 64),
    "one output": lambda: _layer(nn.Linear(512, 1), 1, 512),
    "transposed operand": lambda: _operator(lambda a, b: a @ b.t(), (5, 7), (3, 7)),
    "bmm": lambda: _operator(torch.bmm, (6, 5, 7), (6, 7, 3)),
    "baddbmm": lambda: _operator(
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2), (6, 1, 3), (6, 5, 7), (6, 7, 3)
    ),
    "mv": lambda: _operator(torch.mv, (5, 7), (7,)),
    "addmv": lambda: _operator(torch.addmv, (5,), (5, 7), (7,)),
    "dot": lambda: _operator(torch.dot, (9,), (9,)),
    "attention": lambda: _operator(functional.scaled_dot_product_attention, *[(2, 3, 10, 16)] * 3),
    "causal": lambda: _operator(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), *[(2, 3, 10, 16)] * 3
    ),
    "masked": lambda: _operator(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(10, 10).tril().bool()),
        *[(2, 3, 10, 16)] * 3,
    ),
    "steep attention": lambda: _operator(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=8.0), *[(2, 3, 10, 16)] * 3
    ),
    "activation": lambda: _operator(torch._addmm_activation, (5,), (9, 7), (7, 5)),
    "lstm": lambda: _layer(nn.LSTM(8, 6), 5, 2, 8),
    "packed by mkl": lambda: _packed_by_mkl(16, 8, 24),
    "packed with relu": lambda: _fused_linear(["relu", [], ""]),
    "packed with gelu": lambda: _fused_linear(["gelu", [], "tanh"]),
    "packed with an addend": lambda: _fused_linear(["add"], noise(16, 24)),
    "packed conv": lambda: _fused_conv(["none", [], ""]),
    "packed conv with swish": lambda: _fused_conv(["swish", [], ""], groups=4),
    "packed conv with an addend": lambda: _fused_conv(["add", None, "relu", [], ""], noise(2, 16, 12, 12)),
    "packed conv into an addend": lambda: _fused_conv(["add", 1.0, None, [], ""], noise(2, 16, 12, 12), in_place=True),
}


def _packed_by_mkl(rows: int, size: int, outputs: int) -> Callable[[], object]:
    if not torch.backends.mkl.is_available():
        pytest.skip("this torch has no MKL")
    x, weight, bias = noise(rows, size), noise(outputs, size), noise(outputs)
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)
    return lambda: torch.ops.mkl._mkl_linear(x, packed, weight, bias, rows)


def _fused_linear(fused: list[Any], *added: torch.Tensor) -> Callable[[], object]:
    """As inductor calls it."""
    x, bias, packed = noise(16, 8), noise(24), torch.ops.mkldnn._reorder_linear_weight(noise(24, 8), 16)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, *added, packed, bias, *fused)


def _fused_conv(
    fused: list[Any], *added: torch.Tensor, groups: int = 1, in_place: bool = False
) -> Callable[[], object]:
    """As inductor calls it."""
    x, weight, sizes = noise(*IMAGE), noise(16, 8 // groups, 3, 3), ([1, 1], [1, 1], [1, 1], groups)
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, *sizes, list(x.shape))
    operator = torch.ops.mkldnn._convolution_pointwise_ if in_place else torch.ops.mkldnn._convolution_pointwise
    tensors = (*added, x) if in_place else (x, *added)
    return lambda: operator(*tensors, packed, None, *sizes, *fused)


def _layer(layer: nn.Module, *shape: int, layout: Any = torch.contiguous_format) -> Callable[[], object]:
    x = noise(*shape).contiguous(memory_format=layout)
    return lambda: layer(x)


def _operator(call: Callable[..., object], *shapes: tuple[int, ...]) -> Callable[[], object]:
    operands = [noise(*shape) for shape in shapes]
    return lambda: call(*operands)


def _skip_unless_supported(call: Callable[[], object]) -> None:
    """Without AVX-512, torch raises an error for an LSTM in autocast, also if nobody observes it."""
    try:
        call()
    except RuntimeError as error:
        pytest.skip(f"torch does not support this call on this CPU: {error}")


@pytest.mark.parametrize("name", CALLS)
def test_the_reference_is_what_the_operator_computes(name: str) -> None:
    """In fp32 every product comes as near to its definition in fp64 as rounding allows."""
    found = only(CALLS[name]())
    assert (found.operands, found.shown, found.not_replayed, found.wrong) == ("fp32", "fp32", None, None)
    assert found.error is not None
    assert 0 < found.error < 1e-6


@pytest.mark.parametrize(
    "name", [each for each in CALLS if each not in ("mv", "addmv", "dot") and not each.startswith("packed")]
)
def test_bf16_operands_show_their_rounded_outputs_only(name: str) -> None:
    """Products of bf16 numbers are exact, so no kernel can be told from this."""
    call = CALLS[name]()

    def cast() -> object:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return call()

    _skip_unless_supported(cast)
    found = only(cast)
    assert (found.operands, found.shown, found.wrong) == ("bf16", "bf16", None)


@pytest.mark.parametrize(
    ("rounding", "shown"),
    [("bf16", "bf16"), ("fp16", "fp16"), ("tf32", "tf32"), ("int8", "int8"), ("fp8", COARSE), ("int4", COARSE)],
)
@pytest.mark.parametrize("name", ["linear", "one row", "one output", "conv", "depthwise", "transposed"])
def test_what_a_kernel_rounds_to_is_shown_by_the_error(name: str, rounding: str, shown: str) -> None:
    """Whatever the types of its tensors are, and however many outputs it has; a known precision is not wrong."""
    operator = "addmm" if name in ("linear", "one row", "one output") else "convolution"
    with planted(operator, ROUNDINGS[rounding]):
        found = only(CALLS[name]())
    assert (found.operands, found.shown) == ("fp32", shown)
    assert found.wrong is None or shown is COARSE


def test_distinct_products_are_called_once_more() -> None:
    """Calls with the same shapes, strides and arguments are one product; a library may choose by strides, too."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 4)).eval()
    x = noise(3, 8)
    found = replayed(lambda: model(x), model)
    assert [(each.count, each.layers) for each in found.products] == [(2, ("0", "2")), (1, ("3",))]
    assert [each.product for each in found.calls if each.product is not None] == [0, 0, 1]
    a, b = noise(6, 6), noise(6, 6)
    assert len(replayed(lambda: (a @ b, a @ b.t())).products) == 2


def test_the_time_is_limited_and_what_was_left_out_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that do most of the work come first; here every look at the clock takes 5 of the 6 s."""
    small, large, clock = nn.Linear(8, 8), nn.Linear(64, 64), count(step=5.0)
    x, y = noise(2, 8), noise(2, 64)
    monkeypatch.setattr("modelzoo.evidence.replay.perf_counter", lambda: next(clock))
    found = replayed(lambda: (small(x), large(y)))
    assert [each.not_replayed for each in found.products] == [NotReplayed.BUDGET, None]


def _fp32_once() -> Callable[..., torch.Tensor]:
    """A convolution that is computed in fp32 at its first call only."""
    turns = count()

    def kernel(images: Any, weights: Any, bias: Any, *rest: Any) -> torch.Tensor:
        dtype = torch.float32 if next(turns) == 0 else torch.bfloat16
        operands = [images.to(dtype), weights.to(dtype), bias.to(dtype)]
        return torch.ops.aten._convolution(*operands, *rest, False, False, True, True).float()

    return kernel


def test_a_replay_that_runs_other_kernels_does_not_count() -> None:
    """The second call is not what the pass ran."""
    with replaced("convolution", _fp32_once()):
        found = only(CALLS["conv"]())
    assert (found.not_replayed, found.shown, found.error) == (NotReplayed.OTHER_KERNELS, None, None)


@pytest.mark.parametrize(("number", "not_replayed"), [(1, None), (None, NotReplayed.OTHER_KERNELS)])
def test_a_replay_whose_log_cannot_be_read_counts_if_it_printed_the_same(
    number: int | None, not_replayed: NotReplayed | None
) -> None:
    """Two logs are not equal because neither can be read."""
    numbers = count()

    def kernel(added: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
        print_line(f"tomorrow{next(numbers) if number is None else number}")
        return beta * added + alpha * (left @ right)

    with replaced("addmm", kernel):
        product = only(CALLS["linear"]())
    assert (product.not_replayed, product.logged) == (not_replayed, None)


def test_without_a_log_the_kernels_of_a_replay_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error counts then, whatever ran; it is recorded that no log named a kernel."""
    monkeypatch.setattr("modelzoo.evidence.recording.shows_onednn", lambda source: False)
    with replaced("convolution", _fp32_once()):
        found = only(CALLS["conv"]())
    assert (found.not_replayed, found.shown, found.kernels) == (None, "bf16", None)


def test_a_replay_has_the_switches_threads_and_layout_of_the_pass() -> None:
    """All of them may decide which kernel a library chooses."""
    seen = []

    def kernel(images: Any, weights: Any, *rest: Any) -> torch.Tensor:
        tensors = [(each.shape, each.stride(), each.dtype, each.data_ptr() % 64) for each in (images, weights)]
        switches = (torch.is_inference_mode_enabled(), torch.get_float32_matmul_precision(), torch.get_num_threads())
        seen.append((tensors, rest[1:], switches))
        return torch.ops.aten._convolution(images, weights, *rest, False, False, True, True)

    with replaced("convolution", kernel):
        only(CALLS["channels last"]())
    assert len(seen) > 1
    assert all(each == seen[0] for each in seen)


def test_what_cannot_be_compared_says_why() -> None:
    """Packed weights, and an operator that raises an error."""
    x, weights, turns = noise(4, 64), torch.randint(-9, 9, (64, 64), dtype=torch.int8), count()
    packed = only(lambda: torch.ops.aten._weight_int8pack_mm(x, weights, torch.ones(64)))
    assert (packed.not_replayed, packed.operands) == (NotReplayed.NOT_FLOATING, "int8 weight-only")

    def once(x: torch.Tensor) -> torch.Tensor:
        if next(turns) > 1:  # both operands were rounded
            raise RuntimeError("out of luck\nmore")
        return x

    with planted("addmm", once):
        failed = only(CALLS["linear"]())
    assert (failed.not_replayed, failed.detail) == (NotReplayed.FAILED, "out of luck")


def test_an_output_that_is_not_finite_shows_no_precision() -> None:
    """NaN must neither pass as a small error nor be called a narrow type, and JSON has none."""
    with planted("addmm", lambda x: x * torch.nan):
        found = only(CALLS["linear"]())
    assert (found.shown, found.error, found.not_replayed) == (None, None, NotReplayed.NOT_FINITE)
    assert found.wrong is not None
    assert (found.wrong.fault, found.wrong.outputs) == ("not finite", found.wrong.compared)


def test_the_random_state_and_the_operands_of_the_pass_stay() -> None:
    """A replay has operands of its own."""
    layer, x = nn.Linear(8, 8), noise(3, 8)
    before, state = (x.clone(), layer.weight.clone()), torch.get_rng_state()
    only(lambda: layer(x))
    assert all(map(torch.equal, before, (x, layer.weight)))
    assert torch.equal(state, torch.get_rng_state())


def test_weights_packed_for_onednn_stay_packed() -> None:
    """Their values can be read back, so that the outputs can be compared."""
    from modelzoo.engines.torch.linear import with_onednn_linear

    layer, x = with_onednn_linear(nn.Linear(64, 32)), noise(5, 64)
    found = only(lambda: layer(x))
    assert (found.operator, found.shown) == ("modelzoo::onednn_linear", "fp32")


def test_autocast_reaches_the_parts_of_an_operator_that_it_leaves_alone() -> None:
    """As in a pass that nobody observes; with autocast switched off inside, it does not."""
    call = _operator(lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5))

    def cast(enabled: bool) -> object:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            return call()

    assert [only(lambda on=on: cast(on)).operands for on in (True, False)] == ["bf16", "fp32"]

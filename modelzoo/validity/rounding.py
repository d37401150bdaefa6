"""What rounding explains: the error of every layer beside that of the same model rounded to bf16 by hand.

Three passes over the same few inputs: the reference, the setting under test, and the *yardstick*, which is
the reference with the weights, inputs and outputs of its layers rounded to bf16 while it computes in fp32.
The yardstick says how much a right bf16 must differ; a fault differs more, or in one direction.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.validity.outcome import Side
from modelzoo.validity.thresholds import BF16_STEP, FP32_DRIFT

SAMPLED = 65_536
"""Elements kept of a layer's output: enough for its error to three digits, small enough for any model."""
OUTPUT = "(output)"
"""The name under which the model's output stands among the layers."""
BLIND = 8 * BF16_STEP
"""What bf16 explains where the reference cannot be hooked, so that there is no yardstick: 3 %."""
SMALLEST = 2048
"""Elements below which a layer's scale is not estimated: 1×1 maps of a few pictures tell too little."""
BLOCKS = 16


@dataclass(frozen=True)
class LayerError:
    """One layer's output, tested against reference.

    Attributes:
        error: norm of the difference ÷ norm of the reference.
        scale: least-squares factor of tested on reference, minus 1; 0 where nothing is systematic.
        scale_error: standard error of ``scale`` and of ``explained_scale`` together.
        explained: the error that rounding explains: the yardstick's, at least 2⁻⁸ (bf16) or 10⁻⁵ (fp32).
        explained_scale: the yardstick's ``scale``.
        finite: no NaN and no Inf in the tested output.
    """

    name: str
    kind: str
    error: float
    scale: float
    scale_error: float
    explained: float
    explained_scale: float
    finite: bool

    @property
    def ratio(self) -> float:
        """Error ÷ what rounding explains."""
        return self.error / self.explained

    @property
    def excess_scale(self) -> float:
        """How far ``scale`` is from the yardstick's, beyond three standard errors of that.

        The yardstick holds what is systematic in rounding the weights.
        """
        return max(0.0, abs(self.scale - self.explained_scale) - 3 * self.scale_error)


def relative_error(tested: Any, reference: Any) -> float:
    """‖tested − reference‖ ÷ ‖reference‖ over all elements (NaN where either is not finite)."""
    difference = (tested - reference).double().norm().item()
    size = reference.double().norm().item()
    if not math.isfinite(difference) or not math.isfinite(size):
        return math.nan
    return float(difference / size) if size else float(difference > 0)


def scale(tested: Any, reference: Any) -> tuple[float, float]:
    """The factor between two flat tensors, minus 1, and its standard error.

    Least squares through the origin, ⟨tested, reference⟩ ÷ ⟨reference, reference⟩. Neighbouring elements err
    alike, so the error is the cluster-robust one (Liang and Zeger 1986) over ``BLOCKS`` stretches.
    """
    import torch

    tested, reference = tested.double(), reference.double()
    size = (reference**2).sum().item()
    if not size or not math.isfinite(size):
        return 0.0, 0.0
    factor = (tested * reference).sum().item() / size
    residuals = (tested - factor * reference) * reference
    blocks = torch.stack([block.sum() for block in residuals.chunk(BLOCKS)])
    return factor - 1, (blocks**2).sum().sqrt().item() / size


def all_finite(output: Any) -> bool:
    """Whether all tensors in ``output`` (nested lists, tuples, dicts) are free of NaN and Inf."""
    import torch

    if isinstance(output, torch.Tensor):
        return not output.is_floating_point() or bool(torch.isfinite(output).all())
    if isinstance(output, Mapping):
        return all(all_finite(value) for value in output.values())
    if isinstance(output, (list, tuple)):
        return all(all_finite(value) for value in output)
    return True


def observable(side: Side) -> bool:
    """Whether the layers of ``side`` can be hooked: an eager module, neither traced nor compiled."""
    import torch

    model = side.model
    return (
        isinstance(model, torch.nn.Module)
        and not isinstance(model, torch.jit.ScriptModule)
        and not hasattr(model, "_orig_mod")
    )


def probe_size(tested: Side, batch: int, wanted: int) -> int:
    """Items to compare layer by layer: ``wanted``, or ``batch`` where another shape costs a compilation."""
    return wanted if observable(tested) else batch


@dataclass(frozen=True)
class Seen:
    """Sampled outputs of the layers, in the order in which they ran; whether each was finite; its kind."""

    outputs: Mapping[str, Any]
    finite: Mapping[str, bool]
    kinds: Mapping[str, str]


@contextlib.contextmanager
def _hooked(model: Any, wanted: Callable[[str], bool], into: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """Call ``into(name, module, output)`` after every leaf module that is ``wanted``."""
    handles = [
        module.register_forward_hook(lambda mod, _, output, name=name: into(name, mod, output))
        for name, module in model.named_modules()
        if name and not list(module.children()) and wanted(name)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def observe(
    side: Side,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    outputs_of: Callable[[Any], Any] | None = None,
) -> Seen:
    """Run ``side`` once on ``args``; return what its leaf layers gave, and its output, as fp32 on the CPU.

    ``outputs_of`` turns what the model returns into one tensor; without it the output is not kept.
    """
    import torch

    outputs: dict[str, Any] = {}
    finite: dict[str, bool] = {}
    kinds: dict[str, str] = {}
    calls: dict[str, int] = {}

    def keep(name: str, module: Any, output: Any) -> None:
        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return
        calls[name] = calls.get(name, 0) + 1
        key = name if calls[name] == 1 else f"{name}#{calls[name]}"
        flat = output.detach().reshape(-1)
        stride = -(-flat.numel() // SAMPLED) | 1  # odd, so that it does not fall on one column of an image
        outputs[key] = flat[::stride].to("cpu", torch.float32, copy=True)  # a view would keep all of it
        finite[key] = bool(torch.isfinite(flat).all())
        kinds[key] = type(module).__name__

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(side.active())
        if observable(side):
            stack.enter_context(_hooked(side.model, wanted, keep))
        output = side.call(*args)
    if outputs_of is not None:
        keep(OUTPUT, output, outputs_of(output))
    return Seen(outputs, finite, kinds)


@contextlib.contextmanager
def rounded_by_hand(model: Any) -> Iterator[None]:
    """Round weights, inputs and outputs of every leaf layer to bf16 while the model computes in fp32.

    So are those of matrix products outside of layers, as in attention that is written out (transformers without
    ``scaled_dot_product_attention``): a softmax follows, which makes much of what its scores were rounded by.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    products = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm)

    class Products(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in products:
                return rounded(func(*(rounded(x) for x in args), **(kwargs or {})))
            return func(*args, **(kwargs or {}))

    def rounded(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.to(torch.bfloat16).to(torch.float32)
        return value

    handles, kept = [], []
    for module in model.modules():
        if list(module.children()):
            continue
        handles.append(module.register_forward_pre_hook(lambda _, inputs: tuple(rounded(x) for x in inputs)))
        handles.append(module.register_forward_hook(lambda _, __, output: rounded(output)))
        if isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
            kept.append((module.weight, module.weight.data))
            module.weight.data = rounded(module.weight.data)
    try:
        with Products():
            yield
    finally:
        for handle in handles:
            handle.remove()
        for weight, data in kept:
            weight.data = data


def layer_errors(
    reference: Side,
    tested: Side,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    outputs_of: Callable[[Any], Any] | None = None,
) -> tuple[LayerError, ...]:
    """Compare both sides layer by layer on ``args``, the output last.

    Where one side cannot be hooked (traced, compiled) there is the output only. The reference's weights are
    replaced for one pass and put back.
    """
    right = observe(reference, args, wanted, outputs_of)
    ours = observe(tested, args, wanted, outputs_of)
    by_hand: Mapping[str, Any] = {}
    if tested.precision == "bf16" and observable(reference):
        with rounded_by_hand(reference.model):
            by_hand = observe(reference, args, wanted, outputs_of).outputs
    floor = FP32_DRIFT
    if tested.precision == "bf16":
        floor = BF16_STEP if by_hand else BLIND
    found = []
    for name, expected in right.outputs.items():
        output, yardstick = ours.outputs.get(name), by_hand.get(name)
        if output is None or output.shape != expected.shape:
            continue
        error = relative_error(output, expected)
        explained, usual, spread, factor = floor, 0.0, 0.0, 0.0
        enough = expected.numel() >= SMALLEST
        if enough:
            factor, spread = scale(output, expected)
        if yardstick is not None and yardstick.shape == expected.shape:
            explained = max(floor, relative_error(yardstick, expected))
            if enough:
                usual, more = scale(yardstick, expected)
                spread = math.hypot(spread, more)
        kind, finite = right.kinds[name], ours.finite[name]
        found.append(LayerError(name, kind, error, factor, spread, explained, usual, finite))
    return tuple(found)


def suspect(layer: LayerError, drift: float, largest_scale: float) -> bool:
    """Whether ``layer`` drifts beyond what rounding explains."""
    return not layer.finite or not layer.ratio <= drift or not layer.excess_scale <= largest_scale

"""Shape seeded random weights so that a network's work is like a trained one's.

Untouched random weights make activations grow or vanish with depth, and make a detector send either
everything or nothing into its non-maximum suppression. Here every normalization layer is fitted to
what it sees, and a detector's heads are scaled and biased until the counts are those of a trained
detector. All of it is one or two forward passes over the suite's own photograph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from modelzoo.workload.declaration import Inputs

LEAST_VARIANCE = 1e-3
"""Floor of a fitted variance: a channel that is nearly constant must not be blown up."""
LEAST_PLACES = 9
"""Fewer places (boxes, pixels) than this are too few to centre a channel by."""


@contextmanager
def hooks(handles: list[Any]) -> Iterator[None]:
    """Remove the hooks behind ``handles`` at the end, whatever happens."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def fit_normalization(model: Any, inputs: Inputs) -> None:
    """Set mean and variance of each (frozen) batch norm to those of its input, in one pass.

    Each layer is fitted just before it runs, so every later layer sees fitted activations.
    """
    import torch
    from torchvision.ops.misc import FrozenBatchNorm2d

    def fit(layer: Any, args: tuple[Any, ...]) -> None:
        x = args[0]
        layer.running_mean.copy_(x.mean((0, 2, 3)))
        layer.running_var.copy_(x.var((0, 2, 3), unbiased=False).clamp_min(LEAST_VARIANCE))

    kinds = (torch.nn.BatchNorm2d, FrozenBatchNorm2d)
    with hooks([m.register_forward_pre_hook(fit) for m in model.modules() if isinstance(m, kinds)]):
        model(*inputs.args)


def scale_outputs(model: Any, inputs: Inputs, layers: dict[Any, float]) -> None:
    """Make the outputs of each linear or convolution layer have mean 0 and the standard deviation given.

    Each channel is centred by itself, so that what wins differs from place to place and not only from
    channel to channel; with fewer than ``LEAST_PLACES`` places the layer is centred as a whole. The
    layers are scaled as they run, in one pass, so later ones see scaled inputs.
    """

    def scale(layer: Any, args: Any, output: Any) -> Any:
        places = tuple(d for d in range(output.dim()) if d != 1)
        many = output[:, 0].numel() >= LEAST_PLACES
        mean = output.mean(places, keepdim=True) if many else output.mean()
        factor = layers[layer] / (output - mean).std().clamp_min(1e-12)
        layer.weight.mul_(factor)
        layer.bias.sub_(mean.flatten()).mul_(factor)
        return (output - mean) * factor

    with hooks([layer.register_forward_hook(scale) for layer in layers]):
        model(*inputs.args)


def capture(model: Any, inputs: Inputs, modules: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the model once; return its output, and the output of each named module."""
    seen: dict[str, Any] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda module, args, output: seen.__setitem__(name, output)

    with hooks([module.register_forward_hook(keep(name)) for name, module in modules.items()]):
        output = model(*inputs.args)
    return output, seen


def candidates(logits: Any, threshold: float) -> int:
    """Pairs of box and class (background is class 0) whose softmax score exceeds ``threshold``.

    ``logits`` is (boxes, classes), of any floating type.
    """
    return int((logits.float().softmax(-1)[..., 1:] > threshold).sum())


def background_bias(logits: Any, threshold: float, wanted: int) -> float:
    """What to add to the background's logit so that ``wanted`` pairs exceed ``threshold``.

    Found by bisection, and rounded so that machines whose last bits differ agree.
    """
    low, high = -20.0, 40.0
    for _ in range(40):
        middle = (low + high) / 2
        moved = logits.clone()
        moved[..., 0] += middle
        if candidates(moved, threshold) > wanted:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 3)

"""Build a model without initial values that are overwritten, or adjust random weights to a trained model's work.

Drawing the initial values of BERT-base takes longer than loading its weights. The model's tensors are allocated as in
a normal build and filled by ``load_state_dict``, so the weights end in the same kind of memory either way. Building on
the ``meta`` device is no alternative: tensors that are not in the state dict, such as a detector's anchors, would be
left without values.

With default initialization, activations grow or vanish with depth, and a detector sends either every box or none into
non-maximum suppression (NMS). The functions here run the model once on a batch and set layers from what they observe,
in the order in which they run (after layer-sequential unit-variance initialization, Mishkin and Matas, "All you need
is a good init", ICLR 2016). They change the model in place and are called from ``Workload.randomize``, without
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import ref

from modelzoo.workload.declaration import Inputs
from modelzoo.workload.nested import tensors_in

_IN_PLACE = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_", "geometric_")
# A TorchFunctionMode is told of these functions of torch.nn.init, and does not see what they call.
_FILLS = frozenset((*_IN_PLACE, "kaiming_uniform_", "kaiming_normal_"))
"""What fills a tensor with random numbers, as a method or as a function of ``torch.nn.init`` or of transformers."""
_READS = frozenset(
    ("item", "tolist", "numpy", "__array__", "__bool__", "__float__", "__int__", "is_nonzero", "equal", "allclose")
)
"""What makes something other than a tensor from a tensor's values."""
MIN_VARIANCE = 1e-3
"""Smallest running variance that is set: a nearly constant channel must not be amplified."""
MIN_POSITIONS = 9
"""Positions (boxes or pixels) that a channel needs for a mean of its own."""


def skip_initialization(build: Callable[[], Any]) -> Any:
    """Build a model whose state dict will be overwritten completely.

    Calls that fill a tensor with random numbers do nothing meanwhile. The model is built again, normally, if that
    could change anything but its state dict: if another tensor that was to be filled, or that was computed from one
    that was, is still in use; or if it draws other random numbers, which normally follow those of the initialization.

    Args:
        build: creates the ``torch.nn.Module``; may be called twice.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    plain = (torch.Tensor, tuple, list, int, str, type(None), torch.dtype, torch.device, torch.layout)
    unfilled: dict[int, list[Any]] = {}  # by address, which is not used again while its tensors are here

    class Unfilled(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs, name = kwargs or {}, getattr(func, "__name__", "")
            if name in _FILLS:
                filled = args[0] if args else kwargs["tensor"]
                unfilled.setdefault(_address(filled), []).append(filled)
                return filled
            result = func(*args, **kwargs)
            if any(_address(tensor) in unfilled for tensor in tensors_in((args, kwargs))):
                if name in _READS or not isinstance(result, plain):
                    raise RuntimeError("the build depends on a random number that was not drawn")
                for tensor in tensors_in(result):
                    unfilled.setdefault(_address(tensor), []).append(tensor)
            return result

    state = torch.get_rng_state()
    try:
        with Unfilled():
            model = build()
        for tensor in tensors_in(model.state_dict()):
            unfilled.pop(_address(tensor), None)
    except Exception:  # a constructor may refuse such values; if there is another reason, a normal build shows it
        model = None
    others = [ref(tensor) for tensors in unfilled.values() for tensor in tensors if tensor.numel()]
    unfilled.clear()
    if model is None or any(each() is not None for each in others) or not torch.equal(state, torch.get_rng_state()):
        torch.set_rng_state(state)
        return build()
    return model


def _address(tensor: Any) -> int:
    """The address of the memory that holds a tensor, which is the same for all of its views."""
    address: int = tensor.untyped_storage().data_ptr()
    return address


@contextmanager
def temporary_hooks(handles: Iterable[Any]) -> Iterator[None]:
    """Remove the hooks of ``handles`` when the block ends."""
    handles = list(handles)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def calibrate_batch_norm(model: Any, inputs: Inputs) -> None:
    """Set the running mean and variance of every batch norm to those of its input.

    A layer is set just before it runs, so that later layers see its normalized output. Frozen batch norms of
    torchvision are included.

    Args:
        model: a ``torch.nn.Module`` in eval mode.
        inputs: the batch to run.
    """
    import torch
    from torchvision.ops.misc import FrozenBatchNorm2d

    def calibrate(layer: Any, args: tuple[Any, ...]) -> None:
        x = args[0]
        layer.running_mean.copy_(x.mean((0, 2, 3)))
        layer.running_var.copy_(x.var((0, 2, 3), unbiased=False).clamp_min(MIN_VARIANCE))

    layers = (m for m in model.modules() if isinstance(m, (torch.nn.BatchNorm2d, FrozenBatchNorm2d)))
    with temporary_hooks(layer.register_forward_pre_hook(calibrate) for layer in layers):
        model(*inputs.args)


def standardize_outputs(model: Any, inputs: Inputs, deviations: Mapping[Any, float]) -> None:
    """Scale and shift layers so that their outputs have mean 0 and the given standard deviation.

    Each channel gets mean 0, so that the class with the highest score differs between positions. With fewer than
    ``MIN_POSITIONS`` positions the layer's overall mean is subtracted instead. A layer is set when it runs, so that
    later layers see its standardized output.

    Args:
        model: a ``torch.nn.Module`` in eval mode.
        inputs: the batch to run.
        deviations: linear and convolution layers with a bias, and the standard deviation of each one's output.
    """

    def standardize(layer: Any, args: Any, output: Any) -> Any:
        all_but_channel = tuple(d for d in range(output.dim()) if d != 1)
        is_per_channel = output[:, 0].numel() >= MIN_POSITIONS
        mean = output.mean(all_but_channel, keepdim=True) if is_per_channel else output.mean()
        factor = deviations[layer] / (output - mean).std().clamp_min(1e-12)
        layer.weight.mul_(factor)
        layer.bias.sub_(mean.flatten()).mul_(factor)
        return (output - mean) * factor

    with temporary_hooks(layer.register_forward_hook(standardize) for layer in deviations):
        model(*inputs.args)


def capture_outputs(model: Any, inputs: Inputs, modules: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the model once and keep the outputs of some of its modules.

    Args:
        model: a ``torch.nn.Module``.
        inputs: the batch to run.
        modules: submodules of ``model`` by a name of your choice.

    Returns:
        The model's output, and each module's output by its name.
    """
    names, outputs = {module: name for name, module in modules.items()}, dict[str, Any]()

    def keep(module: Any, args: Any, output: Any) -> None:
        outputs[names[module]] = output

    with temporary_hooks(module.register_forward_hook(keep) for module in modules.values()):
        return model(*inputs.args), outputs


def count_candidates(logits: Any, threshold: float) -> int:
    """Count the pairs of box and class that enter NMS: those with a softmax score over ``threshold``.

    Args:
        logits: (..., boxes, classes), of any floating type; class 0 is the background and is not counted.
        threshold: the detector's score threshold.
    """
    return int((logits.float().softmax(-1)[..., 1:] > threshold).sum())


def solve_background_bias(logits: Any, threshold: float, wanted: int) -> float:
    """Find the shift of the background logit with which ``wanted`` candidates enter NMS.

    The result is rounded to three decimals, so that machines whose logits differ in the last bits agree.

    Args:
        logits: (..., boxes, classes), class 0 being the background.
        threshold: the detector's score threshold.
        wanted: the number of candidates, see ``count_candidates``.

    Returns:
        The number to add to the background logit.
    """
    low, high = -20.0, 40.0
    for _ in range(40):  # bisection: more background leaves fewer candidates
        middle = (low + high) / 2
        shifted = logits.clone()
        shifted[..., 0] += middle
        if count_candidates(shifted, threshold) > wanted:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 3)

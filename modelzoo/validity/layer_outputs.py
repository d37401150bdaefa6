"""Observe the outputs of a model's layers during one pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from modelzoo.validity.predictor import Predictor

MAXIMUM_SAMPLE = 65_536
"""Elements kept of each output: its error is then accurate to three digits, and any model fits into memory."""
OUTPUT = "(output)"
"""The name of the model's output among the layers."""


@dataclass
class LayerOutputs:
    """Samples of the outputs as fp32 tensors on the CPU, by layer, in the order of execution.

    ``finite`` is of the whole output; ``kinds`` are the classes of the modules. A layer that is called more than
    once has an entry per call: ``name``, ``name#2`` ….
    """

    samples: dict[str, Any] = field(default_factory=dict)
    finite: dict[str, bool] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, module: Any, output: Any) -> None:
        """Keep a sample of ``output`` if it is a floating-point tensor."""
        import torch

        if not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return
        self._calls[name] = self._calls.get(name, 0) + 1
        key = name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"
        flat = output.detach().reshape(-1)
        stride = -(-flat.numel() // MAXIMUM_SAMPLE) | 1  # odd, so that it does not sample one column of an image only
        # A view would keep the whole output in memory.
        self.samples[key] = flat[::stride].to("cpu", torch.float32, copy=True)
        self.finite[key] = bool(torch.isfinite(flat).all())
        self.kinds[key] = type(module).__name__


def is_observable(predictor: Predictor) -> bool:
    """Whether the layers can be hooked: the model is an eager module, neither traced nor compiled."""
    import torch

    model = predictor.model
    return (
        isinstance(model, torch.nn.Module)
        and not isinstance(model, torch.jit.ScriptModule)
        and not hasattr(model, "_orig_mod")
    )


def observe(
    predictor: Predictor,
    args: tuple[Any, ...],
    wanted: Callable[[str], bool],
    output_tensor: Optional[Callable[[Any], Any]] = None,
) -> LayerOutputs:
    """Run one pass; return the outputs of the leaf layers that are ``wanted``, and of the model.

    ``output_tensor`` turns what the model returns into one tensor; without it the model's output is left out.
    """
    import torch

    observed = LayerOutputs()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(predictor.active())
        if is_observable(predictor):
            stack.enter_context(_hooked(predictor.model, wanted, observed.add))
        output = predictor.call(*args)
    if output_tensor is not None:
        observed.add(OUTPUT, output, output_tensor(output))
    return observed


@contextlib.contextmanager
def _hooked(model: Any, wanted: Callable[[str], bool], receive: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """Call ``receive(name, module, output)`` after every leaf module that is ``wanted``."""
    handles = [
        module.register_forward_hook(lambda module, _, output, name=name: receive(name, module, output))
        for name, module in model.named_modules()
        if name and not list(module.children()) and wanted(name)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def all_finite(output: Any) -> bool:
    """Whether all tensors in ``output`` (nested lists, tuples, mappings) are free of NaN and Inf."""
    import torch

    if isinstance(output, torch.Tensor):
        return not output.is_floating_point() or bool(torch.isfinite(output).all())
    if isinstance(output, Mapping):
        return all(all_finite(value) for value in output.values())
    if isinstance(output, (list, tuple)):
        return all(all_finite(value) for value in output)
    return True

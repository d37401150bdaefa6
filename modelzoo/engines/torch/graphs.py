"""``--mode graph``: the kernels of one call are captured in a CUDA graph, and each call replays them.

Replaying issues all kernels at once, so a model that is bound by launching gains most. A graph reads its inputs from
the tensors that it was captured with and writes its outputs to the same tensors each time: ``load`` copies a batch into
the inputs, and whoever keeps outputs copies them (``kept``).
"""

from __future__ import annotations

from typing import Any, Callable

from modelzoo.engines.torch.nested import mapped
from modelzoo.errors import UsageError

WARM_UP_CALLS = 3
"""Calls on a side stream before the capture, as torch's documentation of CUDA graphs has them: libraries allocate and
select kernels in the first ones, which a capture does not allow."""


class GraphedModel:
    """A model whose calls replay a captured graph.

    Args:
        run: one call, with its own autocast.
        args: what it is captured with: nested lists, tuples and dicts of tensors on the device. It keeps copies.

    Raises:
        RuntimeError: the model does something that cannot be captured, such as reading a value on the host.
    """

    def __init__(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        import torch

        self.args: tuple[Any, ...] = kept(args)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_CALLS):
                run(*self.args)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = run(*self.args)

    def __call__(self, *args: Any) -> Any:
        """Replay the graph on what was loaded last; return its output, which the next call overwrites."""
        self._graph.replay()
        return self._output

    def load(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy ``args`` into the tensors that the graph reads, and return those.

        Raises:
            UsageError: the shapes are not those that were captured.
        """
        _copy(args, self.args)
        return self.args


def kept(value: Any) -> Any:
    """A copy of the tensors in ``value``, nested as they are."""
    return mapped(value, lambda tensor: tensor.clone())


def _copy(source: Any, target: Any) -> None:
    import torch

    if isinstance(target, torch.Tensor):
        if source.shape != target.shape or source.dtype != target.dtype:
            raise UsageError(
                f"--mode graph: the graph was captured with a tensor of shape {tuple(target.shape)}, not "
                f"{tuple(source.shape)}; use another --mode for inputs of several shapes"
            )
        target.copy_(source)
    elif isinstance(target, dict):
        for key, item in target.items():
            _copy(source[key], item)
    elif isinstance(target, (list, tuple)):
        for given, item in zip(source, target):
            _copy(given, item)

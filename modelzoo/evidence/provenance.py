"""Find numbers that operators read in a pass although no operator computed them, and how many are subnormal.

A product in numpy, in a function of a C++ extension, in another thread or in another process calls no operator that can
be observed. But its result comes back as a tensor whose memory no operator has written, and which did not exist before
the pass.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

from modelzoo.evidence.flops import Run, is_view
from modelzoo.evidence.kernel_names import base_name, operator_class
from modelzoo.workload.nested import tensors_in

_EMPTY = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Operators whose outputs have no values yet."""
_SAMPLED = 4096
"""Numbers of an operand, evenly apart, that are looked at."""


class Provenance:
    """Follows the memory of tensors through one pass: all that exists when it is created is known.

    Memory that was freed is remembered, so that a tensor that gets the same address later is another one.

    Args:
        module: the ``torch.nn.Module`` that runs; the weights of scripted ones are no Python objects otherwise.
    """

    def __init__(self, module: Any) -> None:
        import torch

        self.foreign = 0
        """How many floating-point numbers were read that no operator computed."""
        self._read_numbers = self._subnormal_numbers = 0.0
        self._known: dict[int, object] = {}
        self._changed: dict[Any, list[tuple[int, str]]] = {}
        gc.unfreeze()  # frozen objects are not listed, and instances freeze their models and inputs
        for each in gc.get_objects():
            if issubclass(type(each), torch.Tensor):
                self._know(each)
        for each in (*module.parameters(), *module.buffers()) if module is not None else ():
            self._know(each)

    def following(self, run: Run) -> Run:
        """Return what calls each operator by ``run``, and notes what it reads and writes."""

        def noting(name: str, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
            if is_view(name):
                return run(name, operator, args, named)  # no number is read or written
            self._read(operator, args, named)
            for each in tensors_in([args, named]) if operator_class(name) is not None else ():
                self._count_subnormal(each)
            output = run(name, operator, args, named)
            outputs = [] if base_name(name) in _EMPTY else tensors_in(output)
            for each in (*outputs, *self._written(operator, args, named)):
                self._know(each)
            return output

        return noting

    @property
    def subnormal(self) -> float:
        """The share of subnormal numbers in the operands of products, by samples."""
        return self._subnormal_numbers / self._read_numbers if self._read_numbers else 0.0

    def _count_subnormal(self, tensor: Any) -> None:
        import torch

        if not _has_memory(tensor) or tensor.dtype not in (torch.float32, torch.float64, torch.bfloat16):
            return  # fp16 is converted to fp32, in which its numbers are normal
        total = tensor.untyped_storage().nbytes() // tensor.element_size()
        if count := min(total, _SAMPLED):
            sample = tensor.detach().as_strided((count,), (total // count,), 0)
            self._read_numbers += total
            # If the CPU takes them for zero, they are equal to it.
            is_subnormal = (sample != 0) & (sample.abs() < torch.finfo(tensor.dtype).tiny)
            self._subnormal_numbers += total * is_subnormal.float().mean().item()

    def _read(self, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Note what an operator is about to read."""
        written = self._written(operator, args, named)
        for each in tensors_in([args, named]):
            if any(each is other for other in written) or not _has_memory(each):
                continue
            storage = each.untyped_storage()
            if storage._cdata not in self._known:
                self.foreign += storage.nbytes() // each.element_size() if each.is_floating_point() else 0
                self._know(each)

    def _know(self, tensor: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        if _has_memory(tensor):
            storage = tensor.untyped_storage()
            self._known.setdefault(storage._cdata, StorageWeakRef(storage))

    def _written(self, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The tensors that an operator changes, by its schema."""
        if operator not in self._changed:
            arguments = getattr(getattr(operator, "_schema", None), "arguments", ())
            self._changed[operator] = [
                (place, each.name)
                for place, each in enumerate(arguments)
                if each.alias_info is not None and each.alias_info.is_write
            ]
        changed = self._changed[operator]
        return tensors_in([args[n] if n < len(args) else named.get(name) for n, name in changed]) if changed else []


def _has_memory(tensor: Any) -> bool:
    """Whether it is a plain tensor with values on the CPU."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return tensor.layout is torch.strided and tensor.device.type == "cpu"

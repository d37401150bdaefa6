"""Linear layers whose weights are packed for oneDNN once, before the first call.

In fp32, ``torch.nn.functional.linear`` calls the BLAS of this torch. On x86 that is MKL, whose kernels for CPUs other
than Intel's are slower; inductor calls MKL, too. The module imports torch, and nothing of the suite: ``tune`` copies it
into the Python that it writes.
"""

import copy

import torch


class OneDnnLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A ``torch.nn.Linear`` for inference in fp32 on a CPU."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self.register_buffer("packed", packed, persistent=False)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.modelzoo.onednn_linear(x, self.packed, self.bias)


def _define_operator() -> None:
    """Define oneDNN's Linear as an operator that every mode takes as it is, once per process.

    A TorchScript graph cannot hold all arguments of torch's own operator, and inductor cannot compile that one with
    weights that were packed before: its passes look for the packing in the graph.
    """
    if hasattr(torch.ops.modelzoo, "onednn_linear"):
        return
    torch.library.define("modelzoo::onednn_linear", "(Tensor x, Tensor packed, Tensor? bias) -> Tensor")
    torch.library.impl(
        "modelzoo::onednn_linear",
        "default",
        lambda x, packed, bias: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], ""),
    )
    shape_of = torch.library.register_fake("modelzoo::onednn_linear")
    shape_of(lambda x, packed, bias: x.new_empty((*x.shape[:-1], packed.shape[0])))


def with_onednn_linear(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of ``model`` whose Linear layers are packed; it shares all other parameters.

    Subclasses of ``torch.nn.Linear`` stay as they are, because others may read their weights.

    Raises:
        ValueError: it has no such layer.
    """
    _define_operator()
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    changed = copy.deepcopy(model, shared)
    layers = {each: OneDnnLinear(each) for each in changed.modules() if type(each) is torch.nn.Linear}
    if not layers:
        raise ValueError("the model has no torch.nn.Linear layer")
    if changed in layers:
        return layers[changed].eval()
    for parent in list(changed.modules()):
        for name, child in list(parent.named_children()):
            if child in layers:
                setattr(parent, name, layers[child].eval())
    return changed

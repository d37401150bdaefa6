"""What a product is called, and what is wrong with it, in words. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from modelzoo.formatting import counted, significant
from modelzoo.records.evidence import Evidence, Product
from modelzoo.records.faults import Fault
from modelzoo.records.profile import Shape


def layers_text(product: Product) -> str:
    """``layer1.0.conv1``; of several ``layer1.0.conv1 and 2 more``; the operator, if none is known to call it."""
    if not product.layers:
        return product.operator
    others = len(product.layers) - 1
    return product.layers[0] + (f" and {others} more" if others else "")


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Return shapes as ``1×64×56×56, 64×64×3×3``; after three tensors ``…``. Numbers, which have none, are left out."""
    tensors = [shape for shape in shapes if shape]
    shown = ["×".join(map(str, shape)) for shape in tensors[:3]]
    return ", ".join(shown) + (" …" if len(tensors) > 3 else "")


def kernel_text(product: Product) -> str:
    """The kernels that the logs name."""
    if product.kernels is None:
        return "no kernel log"
    # oneDNN's names begin with the kind of product, which the shapes show.
    names = (re.sub("^oneDNN [a-z_]+ ", "oneDNN ", each) for each in product.kernels)
    return ", ".join(dict.fromkeys(names)) or "named by no log"


def wrong_text(evidence: Evidence) -> str:
    """The products whose outputs no precision explains, with what is known of the worst one."""
    if not evidence.wrong:
        return "it is not recorded of which products"
    worst = max(evidence.wrong, key=lambda each: each.wrong.excess or math.inf if each.wrong is not None else 0.0)
    more = len(evidence.wrong) - 1
    also = f"; likewise {counted(more, 'more product')}" if more else ""
    name = f"{worst.operator} in {layers_text(worst)}" if worst.layers else worst.operator
    shapes, kernel = shapes_text(worst.shapes), kernel_text(worst)
    return f"{name} ({worst.operands}, {shapes}; kernel: {kernel}): {fault_text(worst)}{also}"


def fault_text(product: Product) -> str:
    """What is wrong with the outputs of a product."""
    wrong = product.wrong
    if wrong is None:
        return ""
    if wrong.fault is Fault.OTHER_ROW:
        return f"a NaN in one row of its left operand spoils {wrong.outputs} of {wrong.compared} rows of the output"
    of = f"{wrong.outputs:,} of {wrong.compared:,} outputs"
    if wrong.fault is Fault.NOT_FINITE:
        return f"{of} are not finite where the exact ones are, or the reverse"
    excess = (
        "without bound" if wrong.excess is None else f"{significant(wrong.excess, 2)} times as far as rounding explains"
    )
    error = "" if product.error is None else f"; error {product.error:.1e}"
    return f"{of} are off, up to {excess}{error}"

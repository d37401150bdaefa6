"""A product that is wrong, or that ran in another precision than asked for, as a script for a report to its library.

The script needs torch alone. It calls one operator under the settings of the process that was audited, compares it with
fp64, prints the error, and ends with exit code 1 if the result is not what it should be, and 0 if it is. Pure.
"""

from __future__ import annotations

import math
import re

from modelzoo.records.evidence import Evidence, Product
from modelzoo.records.faults import Argument, Fault, ProductCall
from modelzoo.records.run import Result, RunReport, SideReport
from modelzoo.version import __version__
from modelzoo.views import recipe
from modelzoo.views.products import fault_text, kernel_text, layers_text

MOST = 5
"""Scripts of a result, each of another kernel or fault."""


def scripts(result: Result) -> dict[str, str]:
    """Return the scripts of a result, each with the end of the name of its file: ``_wrong_encoder.conv.py``."""
    reports: list[RunReport | SideReport | None] = [run.report for run in result.runs]
    for entry in result.validity:
        reports += [entry.report.tested, entry.report.reference] if entry.report is not None else []
    found: dict[str, str] = {}
    seen = set()
    for report in reports:
        evidence = report.observed.evidence if report is not None else None
        for product in evidence.products if evidence is not None else ():
            key = (product.operator, product.kernels, product.wrong.fault if product.wrong is not None else None)
            if evidence is None or product.call is None or key in seen or len(found) == MOST:
                continue
            seen.add(key)
            kind = "precision" if product.wrong is None else "wrong"
            name = re.sub(r"[^\w.-]", "_", product.layers[0] if product.layers else product.operator.split(":")[-1])
            ending = f"_{kind}_{name}.py"
            ending = f"_{kind}_{name}_{len(found)}.py" if ending in found else ending
            found[ending] = script(product, product.call, evidence, report)
    return found


def script(
    product: Product, call: ProductCall, evidence: Evidence, report: RunReport | SideReport | None = None
) -> str:
    """Return the script of one product.

    Args:
        product: what is wrong, or ran in another precision.
        call: how it is called.
        evidence: the audit that found it.
        report: of its process, whose threads, switches and environment variables the script sets.
    """
    other = f"{call.wanted} was asked for, and error {product.error or 0:.1e} shows {product.shown}"
    variables, switches = None, []
    if isinstance(report, RunReport):
        given = {**report.provenance.machine.environment, **recipe.variables(report)}
        removed = report.provenance.environment.removed.keys() - report.provenance.environment.applied.keys()
        variables = {
            name: each for name, each in sorted(given.items()) if name not in removed and "VERBOSE" not in name
        }
        switches = list(map(recipe.switch, report.switches))
    row = None
    if product.wrong is not None and product.wrong.fault is Fault.OTHER_ROW and call.rows is not None:
        row = (call.arguments[call.rows].shape or (0, 0))[-2] // 2
    # Of negative factors too, the sum of absolute values is wanted.
    factors = {each.name: each.value for each in call.arguments if each.name in ("alpha", "beta")}
    negative = {name: each for name, each in factors.items() if isinstance(each, (int, float)) and each < 0}
    return recipe.rendered(
        "reproducer",
        product=product,
        call=call,
        wrong=product.wrong,
        bound=f"{product.wrong.bound:.2e}" if product.wrong is not None else "",
        row=row,
        said=fault_text(product) or other,
        layers=layers_text(product),
        kernel=kernel_text(product),
        onednn=f"; oneDNN {evidence.onednn_version}" if evidence.onednn_version else "",
        version=__version__,
        variables=variables,
        threads=report.setting.threads if report is not None and report.setting is not None else None,
        switches=switches,
        place="" if call.device == "cpu" else f"{call.device!r}, ",
        by_place=", ".join(_literal(each) for each in call.arguments if not each.name),
        by_name=", ".join(f"{each.name!r}: {_literal(each)}" for each in call.arguments if each.name),
        raised=" + 2**-14" if any(each.dtype == "float16" for each in call.arguments) else "",
        positive="".join(f", {name}={abs(each)}" for name, each in negative.items()),
    )


def _literal(argument: Argument) -> str:
    if argument.shape is None:
        value = argument.value
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return repr(list(value)) if isinstance(value, tuple) else repr(value)
    dtype = f"torch.{argument.dtype}"
    if argument.seed is None:  # a mask that leaves everything
        return f"torch.{'ones' if argument.dtype == 'bool' else 'zeros'}({argument.shape}, dtype={dtype})"
    scale = "" if argument.scale == 1.0 else f", {argument.scale}"
    return f"noise({argument.seed}, {argument.shape}, {argument.strides}, {dtype}{scale})"

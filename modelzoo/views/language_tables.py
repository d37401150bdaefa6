"""The tables of a judgement of a language model: the figures over the data set, and its passages. Pure."""

from __future__ import annotations

import math

from modelzoo.document import Table, Text
from modelzoo.formatting import share
from modelzoo.records.exhibits import ShownPassages
from modelzoo.records.validity import Validity
from modelzoo.views.figure_tables import number_column, over_the_set, text_column


def figures(judged: Validity) -> Table:
    """Perplexity, divergences and the most likely tokens over the data set."""
    found = judged.figures
    ratio = f"{100 * math.expm1(found['ln_perplexity_ratio']):+.2f} %"
    kl = ", ".join(f"{found[name]:.3g}" for name in ("token_kl", "token_kl_median", "token_kl_p99", "token_kl_max"))
    rows = [
        ("perplexity", f"{found['perplexity_reference']:.4g}", f"{found['perplexity_tested']:.4g}", ratio),
        ("KL divergence in nats: mean, median, p99, max", "", kl, ""),
        ("most likely tokens in common", "", share(found["same_top"], 2), ""),
    ]
    return over_the_set(judged, rows)


def passages(judged: Validity, shown: ShownPassages) -> Table:
    """Those with the largest mean divergence."""
    found = shown.passages
    columns = (
        text_column("passage", found, lambda each: each.name),
        number_column("tokens", found, lambda each: str(each.tokens)),
        number_column(f"perplexity {judged.reference_name}", found, lambda each: f"{each.reference_perplexity:.4g}"),
        number_column(judged.tested_name, found, lambda each: f"{each.tested_perplexity:.4g}"),
        number_column("mean KL", found, lambda each: f"{each.mean_kl:.3g}"),
        number_column("max KL", found, lambda each: f"{each.max_kl:.3g}"),
        number_column("same top", found, lambda each: share(each.same_top)),
    )
    note = Text(f"{len(found)} of {judged.items}, those with the largest mean divergence")
    return Table("Passages", columns, note if len(found) < judged.items else None)

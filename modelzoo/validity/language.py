"""Judge a language model: on real text, what it predicts for each token, beside what fp32 predicts there.

Both models get the same tokens (teacher forcing), so a prediction that differs does not change those after it. The
statistics are those of llama.cpp's ``llama-perplexity --kl-divergence`` (tools/perplexity/README.md): the ratio of the
perplexities, the Kullback-Leibler divergence of the tested distribution from fp32's at each position, its mean and
percentiles, and how often both models find the same token most likely ("same top p"). Unlike there, every token but
the first one of a window is predicted. Inference is by passage, never by token: the tokens of a passage are not
independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import PassageScores, ShownPassages
from modelzoo.records.partial import Row
from modelzoo.records.validity import ValidityRequest
from modelzoo.validity import squad
from modelzoo.validity.checks import usable
from modelzoo.validity.picture_sets import sampled, without_bad
from modelzoo.validity.rows import TAIL, Metric, Rule, average, column, percentile, share, tail
from modelzoo.validity.task import Findings, PreparedItem, Task, any_layer, unchanged
from modelzoo.workload.inputs import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 64
"""Positions that are compared together: with a vocabulary of 50,000, some 100 MB."""
SHOWN = 40
"""Passages that are shown; the CSV file holds all of them."""


def single(ids: Any) -> tuple[Any, ...]:
    """The ids alone: arguments of a model that takes nothing else."""
    return (ids,)


class Passage(msgspec.Struct, frozen=True):
    """One document, from which others are independent."""

    name: str
    text: str


def read_passages(path: Path | None) -> list[Passage]:
    """Return the paragraphs of a SQuAD file (``.json``, or a directory with one), or those of a text, or its articles.

    Args:
        path: ``None`` for the built-in paragraphs.

    Raises:
        InputError: the file cannot be read, or holds no text.
    """
    if path is None:
        texts = squad.builtin_passages()
    elif path.is_dir() or path.suffix == ".json":
        texts = squad.passages(squad.read(path))
    else:
        texts = squad.text_passages(read_text(path))
    found = [Passage(f"passage {number}", text) for number, text in enumerate(texts, 1) if text.strip()]
    if not found:
        raise InputError(f"{path} holds no text")
    return found


@dataclass
class LanguageModeling(Task):
    """Predicts each token of a text from those before it.

    A row is the ids of a window, a prediction its logits [L, V] in fp32.

    Attributes:
        tokenizer: ``(checkpoint's directory, or None)`` to a function that turns a text into token ids.
        arguments: makes the model's positional arguments of ids [N, L].
        logits: extracts the logits [N, L, V] from the model's output.
        window: tokens that the model sees at once; longer passages are cut into several windows.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    tokenizer: Callable[[Any], Callable[[str], Sequence[int]]]
    arguments: Callable[[Any], tuple[Any, ...]] = single
    logits: Callable[[Any], Any] = unchanged
    window: int = 512
    layers: Callable[[str], bool] = any_layer

    name, metric, item_name, cluster_name = "language", "perplexity", "passage", "passage"
    one_row = False
    csv = (
        "passages.csv",
        ("passage", "tokens", "fp32_perplexity", "tested_perplexity", "mean_kl", "max_kl", "same_top"),
    )
    metrics = (Metric("same_top", of="same_top", per="tokens"),)
    rules = (
        Rule("ln_perplexity_ratio", average, "loss", per="tokens"),
        Rule("token_kl", average, "kl", per="tokens"),
        Rule("token_kl_p99", tail, "kl"),
        Rule("same_top", share, "same_top", per="tokens"),
    )

    def read(self, request: ValidityRequest) -> Sequence[Passage]:
        self.encode = self.tokenizer(Path(request.model_path) if request.model_path else None)
        passages = read_passages(Path(request.data) if request.data else None)
        chosen = sampled(passages, request.limit, request.seed)
        short = "{} has fewer than two tokens, so that none can be predicted"
        problems = [short.format(each.name) if len(list(self.encode(each.text))) < 2 else "" for each in chosen]
        found, self.data_notes = without_bad(chosen, problems, request.skip_bad, "passage")
        return found

    def data_digest(self) -> str:
        return f"windows of {self.window} tokens"

    def prepare(self, item: Passage) -> PreparedItem:
        ids, size = list(self.encode(item.text)), self.window
        return PreparedItem([ids[start : start + size] for start in range(0, len(ids), size)])

    def batch_arguments(self, rows: Sequence[Sequence[int]]) -> tuple[Any, ...]:
        """Ids [N, L]; shorter rows are filled up behind their end, which changes nothing before it."""
        import torch

        longest = max(map(len, rows))
        return self.arguments(torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows]))

    def output_tensor(self, output: Any, rows: Sequence[Sequence[int]]) -> Any:
        """Logits of all positions of all rows, one after the other, [sum of L, V]."""
        import torch

        logits = self.logits(output)
        return torch.cat([logits[number, : len(row)].float() for number, row in enumerate(rows)])

    def predictions(self, output: Any, rows: Sequence[Sequence[int]]) -> Sequence[Any]:
        logits = self.logits(output)
        return [logits[number, : len(row)].detach().float().cpu().numpy() for number, row in enumerate(rows)]

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        windows = [scored(*each) for each in zip(reference, tested, prepared.rows)]
        nll, divergences, same, finite = zip(*windows)
        (first, second), (is_first_finite, is_second_finite) = map(math.fsum, zip(*nll)), map(all, zip(*finite))
        tokens = sum(len(row) - 1 for row in prepared.rows)
        row = Row(
            index,
            self.items[index].name,
            {
                **{"nll_reference": first, "nll_tested": second, "loss": second - first},
                **{"tokens": float(tokens), "same_top": float(sum(same)), "kl": tuple(chain(*divergences))},
            },
            is_first_finite,
            is_second_finite,
            in_common=sum(same) > 0,
        )
        cells = (row.name, str(tokens), *["nan"] * 5)
        if row.reference_finite and row.tested_finite:
            cells = (*cells[:2], *(f"{number:.6g}" for number in msgspec.structs.astuple(scores(row))[2:]))
        return replace(row, cells=(cells,))

    def counts(self, rows: Sequence[Row]) -> dict[str, int]:
        return {**super().counts(rows), "positions": round(sum(column(rows, "tokens")))}

    def findings(self, rows: Sequence[Row]) -> Findings:
        """Nothing is checked if there are passages that cannot be judged; the figures are those of the others."""
        finite = [row for row in rows if row.reference_finite and row.tested_finite]
        if len(finite) == len(rows):
            return super().findings(rows)
        return Findings(self.figures(finite), changes=[metric.change(rows) for metric in self.metrics])

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """Every figure over all positions; none without positions."""
        tokens, divergences = sum(column(rows, "tokens")), column(rows, "kl")
        if not tokens:
            return {}
        reference, tested = (math.fsum(column(rows, f"nll_{side}")) for side in ("reference", "tested"))
        return {
            "perplexity_reference": perplexity(reference, tokens),
            "perplexity_tested": perplexity(tested, tokens),
            "ln_perplexity_ratio": (tested - reference) / tokens,
            "token_kl": math.fsum(divergences) / tokens,
            "token_kl_median": percentile(divergences, 50),
            "token_kl_p99": percentile(divergences, TAIL),
            "token_kl_max": max(divergences),
            "same_top": sum(column(rows, "same_top")) / tokens,
        }

    def shown_items(self, rows: Sequence[Row]) -> ShownPassages:
        """Those with the largest mean divergence first."""
        return ShownPassages(tuple(sorted(map(scores, rows), key=lambda each: -each.mean_kl)[:SHOWN]))


Scores = tuple[tuple[float, float], tuple[float, ...], int, tuple[bool, bool]]
"""Of a window: the sums of the tokens' negative log-likelihoods in nats, by fp32 and under test; the Kullback-Leibler
divergence of the tested distribution from fp32's for each token, in nats; for how many tokens both models find the same
one most likely; and whether the logits of each can be judged. If not, nothing is compared."""


def scored(reference: NDArray[Any], tested: NDArray[Any], ids: Sequence[int]) -> Scores:
    """Compare the logits [L, V] of both models for the L tokens ``ids``, of which the first one is not predicted.

    fp32's cannot be judged if a token has a probability of 0 in them.
    """
    import numpy as np
    import torch

    finite = usable(reference, tested)
    is_possible = bool(np.isfinite(reference[range(len(ids) - 1), ids[1:]]).all())
    if not all(finite) or not is_possible:
        return (0.0, 0.0), (), 0, (finite[0] and is_possible, finite[1])
    targets = torch.tensor(list(ids[1:]))[:, None]
    nll, divergences, same = [0.0, 0.0], [], 0
    for start in range(0, len(targets), CHUNK):
        # The logits at a position are those of the next token.
        stop = min(start + CHUNK, len(targets))
        logs = [torch.from_numpy(each[start:stop]).log_softmax(-1) for each in (reference, tested)]
        for side, log in enumerate(logs):
            nll[side] -= float(log.gather(1, targets[start:stop]).double().sum())
        # Rounding may leave a divergence slightly below 0.
        terms = (logs[0].exp() * (logs[0] - logs[1])).masked_fill(logs[0].isneginf(), 0)  # -inf in both
        divergences += terms.sum(-1).clamp(min=0).tolist()
        same += int((logs[0].argmax(-1) == logs[1].argmax(-1)).sum())
    return (nll[0], nll[1]), tuple(divergences), same, (True, True)


def perplexity(nll: float, tokens: float) -> float:
    """The perplexity for a sum of negative log-likelihoods in nats, at most that which a double holds."""
    return math.exp(min(nll / tokens, 700.0))


def scores(row: Row) -> PassageScores:
    """What is shown of a passage."""
    names = ("tokens", "nll_reference", "nll_tested", "same_top")
    (tokens, reference, tested, same), divergences = (row.values(name)[0] for name in names), row.values("kl")
    return PassageScores(
        name=row.name,
        tokens=round(tokens),
        reference_perplexity=perplexity(reference, tokens),
        tested_perplexity=perplexity(tested, tokens),
        mean_kl=math.fsum(divergences) / tokens,
        max_kl=max(divergences),
        same_top=same / tokens,
    )

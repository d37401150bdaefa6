"""Causal language models of transformers: prefill of a prompt, then greedy decoding with a cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modelzoo.validity import LanguageModeling, builtin_passages, builtin_questions
from modelzoo.workload import (
    Checkpoint,
    Forward,
    Generation,
    InputRequest,
    Inputs,
    Option,
    WeightsError,
    Workload,
    load_pretrained,
    read_text,
    read_tokenizer,
)

LAST_ONLY = ("logits_to_keep", "num_logits_to_keep")
"""The argument by which transformers' models compute logits of the last positions only: today and up to 4.48."""
WORDS_APART = 97
"""The prompts of a batch start this many words apart."""
MOST_TOKENS = 4096
LENGTHS = tuple(
    Option(name, default, f"{what}, {least} to {MOST_TOKENS}", int, minimum=least, maximum=MOST_TOKENS, is_input=True)
    for name, default, what, least in (
        ("prompt-tokens", 128, "tokens of each prompt", 1),
        ("new-tokens", 24, "tokens to generate for each prompt", 2),
    )
)


def language_model(
    name: str,
    title: str,
    untrained: Callable[[Mapping[str, Any]], Any],
    checkpoint: Callable[[Mapping[str, Any]], Checkpoint | None],
    options: tuple[Option, ...] = (),
    **declared: Any,
) -> Workload:
    """Return the workload of a causal language model.

    Args:
        name: as ``Workload`` has it.
        title: likewise.
        untrained: makes the model of transformers, without weights, from the option values.
        checkpoint: as ``Workload`` has it.
        options: those that it has beside the lengths of prompt and answer.
        declared: other attributes of ``Workload``.
    """
    return Workload(
        name=name,
        title=title,
        unit="prompts",
        build=lambda values: decoding(untrained(values)),
        inputs=prompts,
        checkpoint=checkpoint,
        load=load,
        options=(*options, *LENGTHS),
        judge=lambda values: LanguageModeling(tokenizer=encoder),
        generate=generate,
        **declared,
    )


def decoding(model: Any) -> Any:
    """Wrap a causal language model so that it takes positional arguments and returns logits alone.

    Its arguments are token ids of shape (batch, tokens), the cache (by default none) and for how many positions at the
    end logits are computed (by default 0: for all).
    """
    import torch

    taken = inspect.signature(model.forward).parameters
    if not (names := [name for name in LAST_ONLY if name in taken]):
        raise WeightsError(f"{type(model).__name__} computes logits for the whole prompt; use another architecture")
    keep = names[0]

    class Decoding(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, cache: Any = None, last: int = 0) -> Any:
            own = {keep: last, "past_key_values": cache, "use_cache": cache is not None}
            return self.model(input_ids=ids, **own).logits

    return Decoding()


def load(options: Mapping[str, Any], path: Path) -> Any:
    """Load a checkpoint directory in transformers' format; its config decides the architecture and the size."""
    from transformers import AutoModelForCausalLM

    model = load_pretrained(AutoModelForCausalLM, path)
    positions, wanted = getattr(model.config, "max_position_embeddings", None), sum(lengths(options))
    if positions is not None and wanted > positions:
        raise WeightsError(f"{path} has {positions} positions, and prompt and new tokens together are {wanted}")
    return decoding(model)


def lengths(options: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of the prompt, and new ones."""
    return options["prompt-tokens"], options["new-tokens"]


def generate(options: Mapping[str, Any]) -> Generation:
    def prefill(forward: Forward, ids: Any) -> tuple[Any, Any]:
        from transformers import DynamicCache

        cache = DynamicCache()
        return forward(ids, cache, 1)[:, -1], cache

    def step(forward: Forward, token: Any, cache: Any) -> tuple[Any, Any]:
        return forward(token, cache, 1)[:, -1], cache

    return Generation(*lengths(options), prefill, step, cache_bytes=cache_bytes)


def cache_bytes(cache: Any) -> int:
    """Bytes of the keys and values of all layers."""
    pairs = (
        [(layer.keys, layer.values) for layer in cache.layers]
        if hasattr(cache, "layers")
        else zip(cache.key_cache, cache.value_cache)  # transformers up to 4.53
    )
    return sum(each.numel() * each.element_size() for pair in pairs for each in pair)


def prompts(request: InputRequest) -> Inputs:
    """Prompts of real text, each of exactly as many tokens as were asked for."""
    import torch

    length, _ = lengths(request.options)
    chosen, encode = texts(request, length), encoder(request.model_path)
    # A word is at least one token.
    asked = [encode(text)[:length] for text, _ in chosen]
    return Inputs(args=(torch.tensor(asked),), items=tuple(item for _, item in chosen))


def texts(request: InputRequest, length: int) -> list[tuple[str, str]]:
    """Return a text of ``length`` words for each item of the batch, and a description of it.

    A text that is too short is repeated.
    """
    text, name = (
        (read_text(request.path), request.path.name)
        if request.path is not None
        else ("\n\n".join(builtin_passages()), "built-in passages")
    )
    if request.skip:  # for calibration: a text of which no prompt is measured
        text, name = " ".join(builtin_questions()), "built-in questions"
    words, found = text.split(" "), []
    for number in range(request.skip, request.skip + request.batch):
        start = (number * WORDS_APART + request.seed) % len(words)
        passage = words[start:] + words[:start]
        passage *= 1 + length // len(passage)
        found.append((" ".join(passage[:length]), f"{name} from word {start}"))
    return found


def encoder(model_path: Path | None) -> Any:
    """Return what turns text into ids: the checkpoint's tokenizer; without a checkpoint, the bytes of the text.

    The latter are sufficient for random weights: the time does not depend on the values of the ids.
    """
    if model_path is None:
        return lambda text: list(text.encode())
    from transformers import AutoTokenizer

    return read_tokenizer(AutoTokenizer, model_path).encode

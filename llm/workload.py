"""Decoder-only language models (transformers): prefill of a prompt, then greedy decoding with a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.workload import Checkpoint, Option
from modelzoo.zoo.causal import language_model

SMOLLM2 = "smollm2-135m"
CONFIGS: dict[str, dict[str, Any]] = {
    # Source: config.json of HuggingFaceTB/SmolLM2-135M.
    SMOLLM2: {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "rope_theta": 100000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    },
    # The sizes of Llama 3.2 1B, with plain rotary embeddings: their scaling changes values, and not the work.
    "llama-1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    },
}
CHECKPOINTS = {
    SMOLLM2: Checkpoint(
        name="HuggingFaceTB/SmolLM2-135M",
        source="HuggingFaceTB/SmolLM2-135M",
        megabytes=270,
    ),
}
"""Those that can be had without an account."""


def untrained(options: Mapping[str, Any]) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**CONFIGS[options["model"]]))


WORKLOAD = language_model(
    name="llm",
    title="SmolLM2-135M or another causal language model (transformers), greedy decoding",
    untrained=untrained,
    checkpoint=lambda options: CHECKPOINTS.get(options["model"]),
    options=(
        Option(
            name="model",
            default=SMOLLM2,
            help="the architecture without --weights DIR: SmolLM2-135M, or that of Llama 3.2 1B with random weights",
            choices=tuple(CONFIGS),
            by_checkpoint=True,
        ),
    ),
    libraries=("transformers.models.llama.modeling_llama", "transformers.cache_utils"),
    defaults="SmolLM2-135M, batch 1, prompt of 128 tokens, 24 new ones",
)

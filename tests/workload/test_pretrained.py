"""Checkpoint directories of transformers load as its own ``from_pretrained`` loads them, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertForQuestionAnswering,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MixtralConfig,
)

from modelzoo.engines.torch.switches import cast_model
from modelzoo.errors import WeightsError
from modelzoo.workload import load_pretrained, read_tokenizer
from modelzoo.workload.state import read_state_dict, save_state_dict

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
}
CONFIGS = {
    "gemma3": Gemma3TextConfig(**SMALL, head_dim=8, sliding_window=16),
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=64),
    "llama": LlamaConfig(**SMALL),
    "mixtral": MixtralConfig(**SMALL, num_local_experts=4),
}
IDS = torch.arange(12).reshape(1, 12)


def write(name: str, directory: Path, **how: Any) -> Any:
    """Write a checkpoint in bf16, and return the model that ``from_pretrained`` makes of it in fp32."""
    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(CONFIGS[name]).to(torch.bfloat16).save_pretrained(str(directory), **how)
    return AutoModelForCausalLM.from_pretrained(str(directory), dtype=torch.float32).eval()


def logits(model: Any) -> Any:
    """What a model computes from ``IDS``."""
    with torch.inference_mode():
        return model.eval()(IDS.to(model.device)).logits


def edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the tensors of a checkpoint."""
    state = {name: tensor.clone() for name, tensor in read_state_dict(directory).items()}
    change(state)
    save_state_dict(state, directory / "model.safetensors")


def renamed(state: dict[str, Any]) -> None:
    """The names of the first releases: without the base model's prefix, with the masks of the attention."""
    for name in list(state):
        state[name.removeprefix("transformer.")] = state.pop(name)
    state["h.0.attn.bias"] = torch.ones(1, 1, 64, 64, dtype=torch.uint8)
    state["h.0.attn.masked_bias"] = torch.tensor(-1e4)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_computes_what_from_pretrained_computes(name: str, tmp_path: Path) -> None:
    """To the last bit: Gemma 3's scale must not be rounded to the checkpoint's bf16, Mixtral's experts are merged."""
    expected = write(name, tmp_path)
    found = load_pretrained(AutoModelForCausalLM, tmp_path)
    assert {each.dtype for each in found.parameters()} == {torch.float32}
    assert torch.equal(logits(found), logits(expected))


def test_names_of_the_first_releases_are_read(tmp_path: Path) -> None:
    """GPT-2's own checkpoint on the hub has them."""
    expected = write("gpt2", tmp_path)
    edit(tmp_path, renamed)
    assert torch.equal(logits(load_pretrained(AutoModelForCausalLM, tmp_path)), logits(expected))


@pytest.mark.parametrize("name", ["gemma3", "llama"])
def test_a_cast_leaves_positions_exact(name: str, tmp_path: Path) -> None:
    """Rotary frequencies in bf16 would move every position; everything else is cast, as by from_pretrained."""
    write(name, tmp_path)
    ours = cast_model(load_pretrained(AutoModelForCausalLM, tmp_path), torch.bfloat16)
    expected = AutoModelForCausalLM.from_pretrained(str(tmp_path), dtype=torch.bfloat16)
    frequencies = {name: each for name, each in expected.named_buffers() if name.endswith("inv_freq")}
    assert {each.dtype for each in frequencies.values()} == {torch.float32}
    assert all(torch.equal(ours.get_buffer(name), each) for name, each in frequencies.items())
    assert torch.equal(logits(ours), logits(expected))


MUTATIONS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "missing": (lambda state: state.pop("model.norm.weight"), "1 tensors missing .first: model.norm.weight"),
    "unknown": (lambda state: state.update({"model.extra": torch.ones(1)}), "1 unknown .first: model.extra"),
    "type": (lambda s: s.update({"model.norm.weight": torch.ones(32).to(torch.int8)}), "1 of another type"),
}
"""What makes a checkpoint inconsistent, where from_pretrained takes random or rounded numbers."""


@pytest.mark.parametrize(("change", "message"), MUTATIONS.values(), ids=MUTATIONS)
def test_an_inconsistent_checkpoint_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    """Random numbers in place of a tensor would look like an ordinary result."""
    write("llama", tmp_path)
    edit(tmp_path, change)
    with pytest.raises(WeightsError, match=message) as caught:
        load_pretrained(AutoModelForCausalLM, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}, "needs code of its own .auto_map., which is"),
        ({"auto_map": {"AutoModelForCausalLM": "mine.Mine"}, "model_type": "bert"}, "holds a|does not fit"),
        ({"model_type": "nothing"}, "config.json is of no AutoModelForCausalLM that can be built"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantized, and every precision starts from"),
        ({"hidden_size": "many"}, "config.json is of no AutoModelForCausalLM that can be built"),
        ({"vocab_size": 100}, "of another shape .first: .*weight is .300, 32., the model needs .100, 32."),
    ],
)
def test_a_config_that_cannot_be_used_is_one_line(
    change: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code in the directory never runs, and nobody is asked whether it may."""
    write("llama", tmp_path)
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on a worker's pipe"))
    with pytest.raises(WeightsError, match=message) as caught:
        load_pretrained(AutoModelForCausalLM, tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(WeightsError, match="holds no tokenizer that can be read"):
        read_tokenizer(AutoTokenizer, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_what_another_architecture_uses_may_be_in_the_checkpoint(tmp_path: Path) -> None:
    """If the caller says so: a question answering model has no pooler, and its first releases had one."""
    small = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    BertForQuestionAnswering(BertConfig(**small)).save_pretrained(str(tmp_path))
    edit(tmp_path, lambda state: state.update({"bert.pooler.dense.bias": torch.ones(32)}))
    with pytest.raises(WeightsError, match="1 unknown"):
        load_pretrained(BertForQuestionAnswering, tmp_path)
    load_pretrained(BertForQuestionAnswering, tmp_path, unused=(".pooler.",))

"""The workload of language models: its checkpoints, its prompts, and that it generates what transformers does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from modelzoo.errors import WeightsError
from modelzoo.workload import InputRequest, Workload
from modelzoo.workload.discovery import find_workload, load_workload
from modelzoo.workload.generation import generate

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "eos_token_id": None,
}


@pytest.fixture(scope="module")
def work() -> Workload:
    """The workload of the checkout."""
    return load_workload(find_workload("llm"))


@pytest.fixture(params=[True, False], ids=["tied", "own head"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """A small checkpoint in bf16, as transformers writes it, and its model."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=request.param)).to(torch.bfloat16).eval()
    model.save_pretrained(str(tmp_path))
    return tmp_path, LlamaForCausalLM.from_pretrained(str(tmp_path), dtype=torch.float32).eval()


def options(work: Workload, **given: Any) -> dict[str, Any]:
    """The values of all options."""
    return work.option_values({name.replace("_", "-"): value for name, value in given.items()})


def test_a_checkpoint_generates_what_transformers_generates(work: Workload, checkpoint: tuple[Path, Any]) -> None:
    """Greedily, for two prompts at once; the weights are converted to fp32."""
    path, model = checkpoint
    chosen = options(work, prompt_tokens=7, new_tokens=9)
    ours = work.load(chosen, path).eval()  # type: ignore[misc]
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    ids = torch.arange(14).reshape(2, 7)
    assert work.generate is not None
    with torch.inference_mode():
        found = torch.cat(generate(work.generate(chosen), ours, (ids,)), 1)
        expected = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False, pad_token_id=0
        )
        assert torch.equal(ours(ids), model(ids).logits)
    assert torch.equal(found, expected[:, 7:])
    assert len(set(found.flatten().tolist())) > 2


def test_lengths_beyond_the_positions_of_a_model_are_refused(work: Workload, checkpoint: tuple[Path, Any]) -> None:
    """Learned positions would end in an error of torch."""
    path, _ = checkpoint
    with pytest.raises(WeightsError, match="has 64 positions, and prompt and new tokens together are 65"):
        work.load(options(work, prompt_tokens=60, new_tokens=5), path)  # type: ignore[misc]


@pytest.mark.parametrize("length", [1, 128, 3000])
def test_prompts_have_the_length_that_was_asked_for(work: Workload, length: int) -> None:
    """Of the built-in passages, which are repeated if they are too short; every prompt begins elsewhere."""
    found = work.inputs(InputRequest(3, 0, None, options(work, prompt_tokens=length)))
    (ids,) = found.args
    assert ids.shape == (3, length)
    assert len(set(found.items)) == 3
    assert length == 1 or len({tuple(row) for row in ids.tolist()}) == 3
    assert ids.max() < 256


def test_a_prompt_may_be_a_text_of_the_user(work: Workload, tmp_path: Path) -> None:
    """The seed decides where it begins."""
    path = tmp_path / "mine.txt"
    path.write_text("one two three")
    found = work.inputs(InputRequest(1, 1, path, options(work, prompt_tokens=9)))
    assert bytes(found.args[0][0].tolist()) == b"two three"
    assert found.items == ("mine.txt from word 1",)

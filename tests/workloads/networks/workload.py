"""Networks of torchvision and transformers, with small inputs and small configs, as people write them in a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelzoo.validity import Classification, LanguageModeling, builtin_passages
from modelzoo.workload import InputRequest, Inputs, Option, Workload, photograph

TORCHVISION = (
    *("alexnet", "vgg11_bn", "resnet18", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "googlenet"),
    *("squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5", "mnasnet1_0"),
    *("efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "swin_t"),
)
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION: dict[str, dict[str, Any]] = {
    "ViT": {**LAYERS, "image_size": 64},
    "DeiT": {**LAYERS, "image_size": 64},
    "Beit": {**LAYERS, "image_size": 64},
    "ResNet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"},
    "ConvNext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "RegNet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8},
}
TOKENS = {**LAYERS, "vocab_size": 256, "max_position_embeddings": 512}
LANGUAGE: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 256, "n_positions": 512},
    "OPT": {**TOKENS, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "GPTNeoX": TOKENS,
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 256},
    "Llama": {**TOKENS, "num_key_value_heads": 2},
    "Qwen3": {**TOKENS, "num_key_value_heads": 2, "head_dim": 8},
    "Gemma3": {**TOKENS, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16},
}
NAMES = (*TORCHVISION, *VISION, *LANGUAGE)
PIXELS, CLASSES = 64, 1000


def build(options: Mapping[str, Any]) -> Any:
    import torch
    import torchvision
    import transformers

    name = options["network"]
    if name in TORCHVISION:
        more = {"init_weights": False} if name == "googlenet" else {}
        return torchvision.models.get_model(name, weights=None, **more)
    ids: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if name in LANGUAGE:
        config = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
        kind = {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
        made = getattr(transformers, config)(**LANGUAGE[name], **ids)
    else:
        kind = f"{name}ForImageClassification"
        made = getattr(transformers, f"{name}Config")(**VISION[name], num_labels=CLASSES)

    class Logits(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.network = getattr(transformers, kind)(made)

        def forward(self, x: Any) -> Any:
            return self.network(x).logits

    return Logits()


def preprocess(picture: Any) -> Any:
    """Shrink a picture, [3, 64, 64]."""
    from torchvision.transforms.functional import to_tensor

    return to_tensor(picture.resize((PIXELS, PIXELS))) - 0.5


def encode(path: Any) -> Callable[[str], Sequence[int]]:
    """The bytes of a text."""
    return lambda text: list(text.encode())


def inputs(request: InputRequest) -> Inputs:
    import torch

    if request.options["network"] in LANGUAGE:
        text = builtin_passages()[0].encode()[:64]
        return Inputs((torch.tensor([list(text)] * request.batch),), ("passage",) * request.batch)
    return Inputs((torch.stack([preprocess(photograph())] * request.batch),), ("photograph",) * request.batch)


def judge(options: Mapping[str, Any]) -> Any:
    if options["network"] in LANGUAGE:
        return LanguageModeling(tokenizer=encode, window=64)
    return Classification(preprocess, lambda: [str(number) for number in range(CLASSES)])


WORKLOAD = Workload(
    name="networks",
    title="networks of torchvision and transformers",
    unit="items",
    build=build,
    inputs=inputs,
    judge=judge,
    options=(Option(name="network", default="resnet18", help="which one", choices=NAMES),),
)

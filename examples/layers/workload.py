"""Modules of torch.nn that networks other than those of pictures are made of, alone and small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelzoo.workload import InputRequest, Inputs, Option, Workload

WIDTH, LENGTH, VOCABULARY = 256, 64, 10_000
MODULES = ("lstm", "gru", "rnn", "encoder", "transformer", "attention", "embedding")


def build(options: Mapping[str, Any]) -> Any:
    from torch import nn

    class SelfAttention(nn.MultiheadAttention):  # type: ignore[misc]  # torch has no types here
        def forward(self, sequence: Any) -> Any:
            return super().forward(sequence, sequence, sequence, need_weights=False)[0]

    class EncoderDecoder(nn.Transformer):  # type: ignore[misc]
        def forward(self, sequence: Any) -> Any:
            return super().forward(sequence, sequence)

    layer = {"d_model": WIDTH, "nhead": 8, "dim_feedforward": 4 * WIDTH, "batch_first": True}
    made: dict[str, Any] = {
        "lstm": lambda: nn.LSTM(WIDTH, WIDTH, num_layers=2, bidirectional=True, batch_first=True),
        "gru": lambda: nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True),
        "rnn": lambda: nn.RNN(WIDTH, WIDTH, num_layers=2, batch_first=True),
        "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), num_layers=2),
        "transformer": lambda: EncoderDecoder(num_encoder_layers=2, num_decoder_layers=2, **layer),
        "attention": lambda: SelfAttention(WIDTH, 8, batch_first=True),
        "embedding": lambda: nn.Sequential(nn.EmbeddingBag(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)),
    }
    return made[options["module"]]()


def inputs(request: InputRequest) -> Inputs:
    import torch

    generator = torch.Generator().manual_seed(request.seed)
    items = tuple(f"sequence {request.skip + i}" for i in range(request.batch))
    if request.options["module"] == "embedding":
        return Inputs((torch.randint(VOCABULARY, (request.batch, LENGTH), generator=generator),), items)
    return Inputs((torch.randn(request.batch, LENGTH, WIDTH, generator=generator),), items)


WORKLOAD = Workload(
    name="layers",
    title="a module of torch.nn",
    unit="sequences",
    build=build,
    inputs=inputs,
    batch=4,
    options=(Option(name="module", default="lstm", help=", ".join(MODULES), choices=MODULES),),
    defaults=f"batch 4, sequences of {LENGTH} × {WIDTH}",
)

"""A workload that generates tokens, in a directory of its own, for tests that time it in worker processes."""

from __future__ import annotations

from pathlib import Path

from modelzoo.workload import Workload
from modelzoo.workload.discovery import load_workload

SOURCE = '''
"""The next token is the sum of all tokens so far, plus one: the state is the list of what was seen."""

from modelzoo.workload import Generation, Inputs, Option, Workload

TOKENS = 64


def build(options):
    import torch

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(TOKENS, TOKENS, bias=False)
            torch.nn.init.eye_(self.head.weight)

        def forward(self, ids, cache=None):
            seen = ids if cache is None else torch.cat([*cache, ids], 1)
            if cache is not None:
                cache.append(ids)
            return self.head(torch.nn.functional.one_hot((seen.sum(1) + 1) % TOKENS, TOKENS).float())

    return Sum()


def inputs(request):
    import torch

    length = request.options["prompt-tokens"]
    rows = [[(row + column) % TOKENS for column in range(length)] for row in range(request.batch)]
    return Inputs((torch.tensor(rows),), tuple(f"row {row}" for row in range(request.batch)))


def prefill(forward, ids):
    cache = []
    return forward(ids, cache), cache


def step(forward, token, cache):
    return forward(token, cache), cache


def cache_bytes(cache):
    return sum(ids.nbytes for ids in cache)


WORKLOAD = Workload(
    "generating",
    "a sum of tokens",
    "prompts",
    build,
    inputs,
    generate=lambda options: Generation(
        options["prompt-tokens"], options["new-tokens"], prefill, step, cache_bytes=cache_bytes
    ),
    options=(
        Option("prompt-tokens", 3, "tokens of each prompt", int, is_input=True),
        Option("new-tokens", 5, "tokens to generate", int, is_input=True),
    ),
    batch=2,
)
'''


LATE_BF16 = {
    "return self.head(": "return (self.head if seen.shape[1] <= 5 else self.rounding)(",
    "def forward(": """def rounding(self, rows):
            return (rows.bfloat16() @ self.head.weight.bfloat16().t()).float()

        def forward(""",
}
"""The last two steps multiply in bf16."""
LATE_NUMPY = {
    "return self.head(": "return (self.head if seen.shape[1] <= 5 else self.outside)(",
    "def forward(": """def outside(self, rows):
            return torch.from_numpy(rows.numpy() @ self.head.weight.numpy().T)

        def forward(""",
}
"""The last two steps multiply in numpy."""
_INTERCEPTED = "torch.utils._python_dispatch._get_current_dispatch_mode()"
LATE_NOTICE = {
    **LATE_BF16,
    "seen.shape[1] <= 5": f"seen.shape[1] <= 5 or {_INTERCEPTED}",
}
"""The last two steps multiply in bf16 unless their operators are intercepted."""
NOTICED_TOKENS = {
    "seen.sum(1) + 1": f"seen.sum(1) + (2 if seen.shape[1] > 5 and {_INTERCEPTED} else 1)",
}
"""The last two tokens are others while operators are intercepted."""
KEPT = {
    "    cache = []\n": "    cache = CACHE\n    assert not cache\n",
    "def prefill": "CACHE = []\n\n\ndef prefill",
    "cache_bytes=cache_bytes": "cache_bytes=cache_bytes, reset=list.clear",
}
"""One state, which every generation uses again."""
PLAIN: dict[str, str] = {}


def generating_workload(folder: Path, changes: dict[str, str] = PLAIN) -> Workload:
    """Write the workload to ``folder``, with ``changes`` of its source, and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    source = SOURCE
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    (folder / "workload.py").write_text(source, encoding="utf-8")
    return load_workload(folder)

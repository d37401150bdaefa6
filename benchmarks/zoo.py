"""What is proven of models by name? Runs each once with random weights, and writes docs/zoo.md.

    .venv/bin/python benchmarks/zoo.py [--results DIR] [--only TEXT] [--limit 20m] [--page]

The networks are chosen by these rules, fixed before the first run:

* torchvision: of every module of ``torchvision.models`` (a family), the network with the fewest parameters;
* timm: ten architectures that torchvision does not have, each the smallest;
* transformers: twenty widely used architectures, with two layers;
* torch.nn: its recurrent, attention and embedding modules (``examples/layers``).

Each runs in fp32 and in bf16 as ``modelzoo run`` does by default; every sixth one also compiled. The claim: in each of
these, at most 5 % are UNKNOWN or fail. Finished runs are kept in --results, so that the same command goes on after an
interruption; ``--page`` only writes the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from common import Claim, conclude, parser_of

from modelzoo.files import write_atomically
from modelzoo.records.evidence import ProofVerdict
from modelzoo.results import store, summary
from modelzoo.views import proof
from modelzoo.workload.discovery import CHECKOUT

UNPROVEN_SHARE = 0.05
COMPILED_EVERY = 6
TIMM = (
    "convmixer_768_32",
    "deit_tiny_patch16_224",
    "edgenext_xx_small",
    "efficientvit_b0",
    "eva02_tiny_patch14_224",
    "levit_128s",
    "mixer_s32_224",
    "mobilenetv4_conv_small",
    "poolformerv2_s12",
    "repvgg_a0",
)
_DECODER = "hidden_size=512,intermediate_size=1024,num_attention_heads=8,num_hidden_layers=2,vocab_size=4096"
TRANSFORMERS = (
    "AlbertConfig,num_hidden_layers=2,hidden_size=768,num_attention_heads=12,intermediate_size=3072",
    "BartConfig,encoder_layers=2,decoder_layers=2",
    "BertConfig,num_hidden_layers=2,architecture=BertForQuestionAnswering",
    "CLIPTextConfig,num_hidden_layers=2",
    "DebertaV2Config,num_hidden_layers=2,hidden_size=768,num_attention_heads=12,intermediate_size=3072",
    "Dinov2Config,num_hidden_layers=2",
    "DistilBertConfig,n_layers=2,architecture=DistilBertForSequenceClassification",
    "ElectraConfig,num_hidden_layers=2",
    f"GemmaConfig,num_key_value_heads=8,head_dim=64,{_DECODER},architecture=GemmaForCausalLM",
    "GPT2Config,n_layer=2,architecture=GPT2LMHeadModel",
    f"LlamaConfig,num_key_value_heads=2,{_DECODER},architecture=LlamaForCausalLM",
    f"MistralConfig,num_key_value_heads=2,{_DECODER},architecture=MistralForCausalLM",
    "ModernBertConfig,num_hidden_layers=2,architecture=ModernBertForMaskedLM",
    "MPNetConfig,num_hidden_layers=2",
    f"Qwen2Config,num_key_value_heads=2,{_DECODER},architecture=Qwen2ForCausalLM",
    "RobertaConfig,num_hidden_layers=2,architecture=RobertaForTokenClassification",
    "T5Config,num_layers=2",
    "ViTConfig,num_hidden_layers=2,architecture=ViTForImageClassification",
    "Wav2Vec2Config,num_hidden_layers=2,architecture=Wav2Vec2ForCTC",
    "WhisperConfig,encoder_layers=2,decoder_layers=2",
)
LAYERS = ("lstm", "gru", "rnn", "encoder", "transformer", "attention", "embedding")
MODES = {
    "fp32": ("--precision", "fp32"),
    "bf16": ("--precision", "bf16"),
    "fp32, compiled": ("--precision", "fp32", "--mode", "compile"),
    "bf16, compiled": ("--precision", "bf16", "--mode", "compile"),
}


PAGE = """\
# What is proven of models by name

What is proven of networks of torchvision, timm, transformers and torch.nn with random weights, each run in one
process, in fp32 and in bf16 as it is by default ([method](method.md)), and some compiled. This page is made by

    .venv/bin/python benchmarks/zoo.py

which says by what rules the networks were chosen, goes on where it was interrupted, and runs again what is deleted
from `results/zoo`. A verdict is that of one machine: whether bf16 is ACTIVE depends on the CPU. Here:
{machines}.

| mode | verdicts |
| --- | --- |
{counts}

VERIFIED: all products ran in fp32. ACTIVE, PARTLY, NOT ACTIVE: whether they ran in bf16 arithmetic ([proof](proof.md)).
All distinct products were called again and compared with fp64, or as many of how many as stand in parentheses.

| network | fp32 | bf16 | fp32, compiled | bf16, compiled |
| --- | --- | --- | --- | --- |
{rows}

## UNKNOWN, failed, wrong, or not wholly in bf16

{reasons}
"""


@dataclass(frozen=True)
class Network:
    """One row of the page.

    Attributes:
        name: of the workload.
        options: of its command line.
        is_compiled: whether it runs compiled, too.
    """

    name: str
    options: tuple[str, ...]
    is_compiled: bool

    def __str__(self) -> str:
        return f"`{' '.join([self.name, *self.options])}`"


@dataclass(frozen=True)
class Found:
    """What one run found.

    Attributes:
        verdict: as the page has it; ``failed`` if there is none.
        reason: why it is UNKNOWN or failed, or what is wrong; empty if neither.
        called: how many distinct products were called again, and of how many; ``None`` if none was recorded.
        machine: on what it ran.
    """

    verdict: str
    reason: str = ""
    called: tuple[int, int] | None = None
    machine: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it counts against the claim."""
        return self.verdict in ("UNKNOWN", "failed")


def networks() -> list[Network]:
    """Return the networks, in the order of the page."""
    from torchvision.models import get_model_builder, get_model_weights, list_models

    smallest: dict[str, tuple[int, str]] = {}
    for name in list_models():
        family = get_model_builder(name).__module__
        if ".quantization" not in family:
            size = (get_model_weights(name).DEFAULT.meta["num_params"], name)
            smallest[family] = min(smallest.get(family, size), size)
    named = [f"torchvision:{name}" for _, (_, name) in sorted(smallest.items())]
    named += [f"timm:{name}" for name in TIMM]
    named += [f"hf:config={each}" for each in TRANSFORMERS]
    found: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name in named]
    found += [("examples/layers", ("--option", f"module={each}")) for each in LAYERS]
    return [
        Network(name, options, is_compiled=number % COMPILED_EVERY == 0) for number, (name, options) in enumerate(found)
    ]


def place(results: Path, network: Network, mode: str) -> Path:
    """The file of a run's result; what the command printed lies beside it."""
    return results / f"{re.sub('[^A-Za-z0-9]+', '_', f'{network} {mode}')}.json"


def perform(network: Network, mode: str, path: Path, limit: str) -> None:
    """Run a network once; the result is in ``path``, unless the command failed before it had one."""
    command = ["run", network.name, *network.options, *MODES[mode], "--weights", "random", "--processes", "1"]
    command += ["--warmup", "1", "--iterations", "3", "--timeout", limit, "-o", str(path)]
    unfinished = path.with_suffix(".part")
    with unfinished.open("w") as printed:
        subprocess.run(
            [sys.executable, "-m", "modelzoo", *command],
            cwd=CHECKOUT,
            stdout=printed,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    unfinished.rename(path.with_suffix(".txt"))


def found_by(path: Path) -> Found | None:
    """Return what a run found; ``None`` if it was not begun."""
    printed = path.with_suffix(".txt")
    if not printed.exists():
        return None
    if not path.exists():
        return Found("failed", printed.read_text().strip().rpartition("\n")[2])
    result = store.read(path)
    (row,) = summary.rows(result)
    run = row.runs[0]
    if run.report is None:
        return Found("failed", run.error or "")
    evidence = run.report.observed.evidence
    products = evidence.products if evidence is not None else ()
    said = proof.sentence(row.proof)
    words = str(said) if said is not None else run.report.observed.evidence_problem or ""
    seen = run.report.provenance
    machine = ""
    if seen is not None:
        has = "with" if seen.machine.has_bf16 else "without"
        machine = f"{seen.machine.cpu}, {has} bf16 instructions, torch {seen.versions.get('torch', '')}"
    verdict = row.proof.verdict
    is_plain = verdict in (ProofVerdict.FP32, ProofVerdict.ACTIVE)
    return Found(
        {None: "UNKNOWN", ProofVerdict.FP32: "VERIFIED"}.get(verdict, str(verdict).replace("_", " ")),
        "" if is_plain else words,
        (sum(each.shown is not None for each in products), len(products)) if products else None,
        machine,
    )


def cell(found: Found | None) -> str:
    """One run in the table: its verdict, and how many distinct products were called again if not all."""
    if found is None:
        return "not run"
    again, products = found.called or (0, 0)
    return found.verdict + (f" ({again}/{products})" if again < products else "")


def page(ran: Mapping[tuple[Network, str], Found | None]) -> str:
    """Return docs/zoo.md from what the runs found, by network and mode."""
    done = {key: found for key, found in ran.items() if found is not None}
    counts, reasons, rows = [], [], []
    for mode in MODES:
        verdicts = Counter("not run" if each is None else each.verdict for (_, of), each in ran.items() if of == mode)
        counts.append(f"| {mode} | {', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())} |")
    for (network, mode), found in done.items():
        if found.reason:
            reasons.append(f"- {network}, {mode}: {found.reason}")
    for network in dict.fromkeys(network for network, _ in ran):
        cells = [cell(ran[network, mode]) if (network, mode) in ran else "" for mode in MODES]
        rows.append(f"| {' | '.join([str(network), *cells])} |")
    machines = "; ".join(sorted({each.machine for each in done.values() if each.machine}))
    return PAGE.format(machines=machines, counts="\n".join(counts), rows="\n".join(rows), reasons="\n".join(reasons))


def main() -> int:
    """Run what is missing, and write the page; the exit code is 1 if the claim does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--results", type=Path, default=CHECKOUT / "results" / "zoo", metavar="DIR")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="networks and modes whose names have this in them; no page"
    )
    parser.add_argument("--limit", default="20m", metavar="TIME", help="for one answer of a process")
    parser.add_argument("--page", action="store_true", help="run nothing, and write the page")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    ran: dict[tuple[Network, str], Found | None] = {}
    for mode, network in product(MODES, networks()):
        if "compiled" in mode and not network.is_compiled:
            continue
        path = place(args.results, network, mode)
        found = found_by(path)
        if found is None and not args.page and args.only in f"{network}, {mode}":
            print(f"{network}, {mode}: ", end="", flush=True)
            perform(network, mode, path, args.limit)
            found = found_by(path)
            print(found, flush=True)
        ran[network, mode] = found
    if not args.only:
        write_atomically(CHECKOUT / "docs" / "zoo.md", page(ran).encode())
    claims = []
    for mode in MODES:
        found_in = [each for (_, of), each in ran.items() if of == mode]
        unproven = sum(each is not None and each.is_open for each in found_in)
        holds = None if None in found_in else unproven <= UNPROVEN_SHARE * len(found_in)
        claims.append(Claim(f"{mode}: {unproven} of {len(found_in)} are UNKNOWN or failed", holds))
    return conclude(claims)


if __name__ == "__main__":
    sys.exit(main())

"""The examples that ``--help`` ends with."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "modelzoo": (
        ("modelzoo run", "time the four models in fp32 and bf16"),
        ("modelzoo run resnet50 --vary mode=eager,compile", "compare settings"),
        ("modelzoo validate bert --bf16", "are the predictions still right?"),
        ("modelzoo throughput resnet50 --slo p99=50ms", "how many instances, on how many cores?"),
        ("modelzoo load resnet50 --find --slo p99=50ms", "how many requests per second?"),
        ("modelzoo tune resnet50", "what is the fastest valid setting here?"),
        ("modelzoo report results/FILE.json", "show a stored result again"),
        ("modelzoo compare monday.json tuesday.json", "are two results different?"),
        ("modelzoo doctor", "what may distort results on this machine?"),
    ),
    "run": (
        ("modelzoo run", "the four models in fp32 and bf16"),
        ("modelzoo run resnet50 bert --batch 8", "two of them, with another batch size"),
        ("modelzoo run resnet50 --vary mode=eager,compile,script --vary threads=1,2", "all six combinations"),
        ('modelzoo run maskrcnn --setting malloc=glibc --setting "malloc=tcmalloc thp=on"', "exactly these settings"),
        ("modelzoo run ssd --vary python=envs/torch-2.9.1/bin/python,default", "another torch and this one"),
        ("modelzoo run bert --margin 2% --budget 5m", "until ±2 % is reached, 5 minutes at most"),
        ("modelzoo run ssd --processes 8 --max-seconds 3", "a fixed amount of work"),
        ("modelzoo run --sessions 5 --every 30m", "five times, to see how sessions differ"),
        ("modelzoo run examples/mlp --validate --strict", "speed, proof and predictions in one table"),
    ),
    "validate": (
        ("modelzoo validate bert --bf16", "on the built-in questions"),
        ("modelzoo validate resnet50 --data imagenet/val --limit 500", "on 500 of your own pictures"),
        ("modelzoo validate ssd --bf16=cast --explain", "with the error of every layer"),
        ("modelzoo validate bert --tolerance f1=0.98", "with another threshold"),
    ),
    "throughput": (
        ("modelzoo throughput resnet50", "the best way to divide this machine"),
        ("modelzoo throughput resnet50 --slo p99=50ms", "the best one whose p99 is at most 50 ms"),
        ("modelzoo throughput bert --instances 1,2,4 --batch 1,8", "six configurations, interleaved"),
        ("modelzoo throughput bert --instances 8 --cores-per-instance 4 --soak 2h", "does it drift under full load?"),
        ("modelzoo throughput ssd --cores-per-instance 1,2,4 --price 1.36", "as many as fit; cost per million images"),
    ),
    "load": (
        ("modelzoo load resnet50 --find --slo p99=50ms", "the highest rate that meets the bound"),
        ("modelzoo load resnet50 --rate 10 --slo p99=50ms", "one run: VALID or INVALID"),
        ("modelzoo load bert --find --slo p90=1s --instances 4 --batch 4 --max-wait 5ms", "dynamic batches"),
        ("modelzoo load resnet50 --scenario offline --batch 8", "all at once: how many per second?"),
        ("modelzoo load resnet50 --rate 10 --loadgen", "with MLPerf LoadGen as a cross-check"),
    ),
    "tune": (
        ("modelzoo tune resnet50", "the fastest setting here, in 20 minutes"),
        ("modelzoo tune bert --goal throughput --budget 1h", "larger batches too"),
        ("modelzoo tune ssd --vary mode=eager,compile --vary threads=1,2", "only these"),
        ("modelzoo tune bert --resume results/FILE.json", "continue after an interruption"),
    ),
    "fleet": (
        ("torchrun … -m modelzoo fleet run resnet50 bert", "is one of the hosts slower than the others?"),
        ("torchrun … -m modelzoo fleet throughput resnet50 --slo p99=50ms", "how much do all of them serve together?"),
        (
            "torchrun … -m modelzoo fleet validate resnet50 --data imagenet/val --shards-dir shards",
            "50,000 pictures, divided among the hosts",
        ),
        (
            "torchrun … -m modelzoo fleet validate bert --data dev-v1.1.json --shards-dir shards --recheck 2",
            "and judge two shards twice",
        ),
        ("torchrun … -m modelzoo fleet run resnet50 --store 10.0.0.1:29501", "with the store on this address and port"),
    ),
    "report": (
        ("modelzoo report results/FILE.json", "as it was printed"),
        ("modelzoo report results/FILE.json --details", "percentiles, each process, kernels and notes"),
        ("modelzoo report monday.json tuesday.json", "several results, one after the other"),
        ("modelzoo report results/FILE.json -o report.html", "as a page with plots, for a browser"),
        ("modelzoo report results -o report.html --redact", "history of a directory, without private names"),
    ),
    "compare": (
        ("modelzoo compare monday.json tuesday.json", "two results"),
        ("modelzoo compare old=baseline/ new=candidate/", "directories of sessions, with names"),
        ("modelzoo compare xeon.json epyc.json yitian.json", "each of the others with the first"),
        ('modelzoo compare a.json a.json --pair "precision=fp32:precision=bf16"', "settings that differ"),
        ("modelzoo compare a.json b.json --metric memory", "peak memory instead of latency"),
        ("modelzoo compare baseline/ new.json --fail-on slower:3%", "exit code 1 if a row is slower"),
        ("modelzoo compare baseline/ new.json --format markdown -o comment.md", "for a pull request"),
        ("modelzoo compare a.json b.json --price a=0.42 --price b=0.31", "cost per million inferences"),
    ),
    "weights": (
        ("modelzoo weights list", "which checkpoints are on this machine, and where"),
        ("modelzoo weights fetch bert", "download the default checkpoint of one workload"),
        ("modelzoo weights verify", "verify the checksums"),
        ("modelzoo weights convert mine.pth", "write mine.safetensors, which holds no code"),
    ),
    "doctor": (
        ("modelzoo doctor", "the ceilings are measured once and kept"),
        ("modelzoo doctor --fresh --json doctor.json", "measure them again, and write everything to a file"),
    ),
    "performance.py": (
        ("python3 performance.py", "fp32"),
        ("python3 performance.py --bf16", "bf16, by the method that suits this machine"),
        ("python3 performance.py --vary mode=eager,compile", "compare settings"),
        ("python3 performance.py --bf16 --profiling", "with operator tables"),
    ),
    "validate.py": (
        ("python3 validate.py --bf16", "are the predictions still right?"),
        ("python3 validate.py --bf16 --data DIR --limit 500", "on your own data"),
    ),
}
"""Command lines with what they do, by command."""
_INDENT = 2
_WIDEST = 58
"""A command line that is longer has its explanation on the next line."""


def epilog(command: str) -> str:
    """Return the examples of ``command`` as text."""
    examples = EXAMPLES[command]
    width = max(len(line) for line, _ in examples if len(line) <= _WIDEST)
    lines = ["examples:"]
    for line, meaning in examples:
        if len(line) <= _WIDEST:
            lines.append(f"{'':{_INDENT}}{line:{width}}  # {meaning}")
        else:
            lines += [f"{'':{_INDENT}}{line}", f"{'':{_INDENT + width}}  # {meaning}"]
    return "\n".join(lines)

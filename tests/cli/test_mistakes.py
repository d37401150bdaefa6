"""Mistakes of the command line: one line for each, before anything is started."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from calls import called
from places import DATA

from modelzoo.cli.parser import ENDED
from modelzoo.setting import choices

MLP = "examples/mlp"
STORED = DATA / "results" / "mlp.json"
CHECK = f"check {MLP} --base default --head default"
FLEET = "--scheduler tcp://127.0.0.1:1"
COMMANDS = [
    ("nosuch", "invalid choice: 'nosuch'"),
    ("runn", "did you mean 'run'? (see modelzoo --help)"),
    ("fleet rum", "did you mean 'run'? (see modelzoo fleet --help)"),
    ("doctor --json /nonexistent/d.json", "cannot write /nonexistent/d.json: there is no directory"),
    ("validate examples/mlp --python /bin/ls", "python=/bin/ls is not a Python interpreter; name an environment"),
    ("validate examples/mlp --tolerance f1", "--tolerance 'f1' must have the form NAME=NUMBER"),
    ("validate examples/mlp --data /nonexistent", "--data /nonexistent does not exist"),
    ("validate examples/mlp --limit 0", "--limit must be 1 or more, not 0"),
    ("validate --shard 3/2 --json x", "'3/2' is no part; write 3/10"),
    ("validate --shard 1/2", "is kept in a file: name it with --json FILE"),
    ("validate bert ssd --shard 1/2 --json x", "name only one of each"),
    ("validate bert --merge x", "--merge takes workloads from the files; leave it out"),
    ("validate --bf16=cast --merge x", "--merge takes bf16 from the files; leave it out"),
    ("validate --merge /proc/none", "cannot read /proc/none: No such file"),
    ("validate --merge /proc/version", "/proc/version is no file of 'modelzoo validate --shard'"),
    ("report /etc", "/etc contains no results (*.json)"),
    ("report /nonexistent.json", "cannot read /nonexistent.json: No such file or directory\n"),
    (f"report {STORED} --redact", "--redact concerns the page only; name its file with -o FILE.html"),
    (f"report {STORED} --price a=1", "--price concerns the page only; name its file with -o FILE.html"),
    (f"report {STORED} -o x.html --price a=1", "--price compares costs: name 2 to 6 results"),
    (f"report {STORED} -o x.html --details", "a page has all details; leave out --details and --kernels"),
    (f"report {STORED} --format html", "--format html is a page; name its file with -o FILE (see modelzoo report"),
    (
        f"report {STORED} -o /nonexistent/x.html",
        "cannot write /nonexistent/x.html: there is no directory /nonexistent; create it, or name another file",
    ),
    (
        f"report {STORED} -o /etc",
        "-o /etc: name a file that ends in .txt, .md, .html, .htm, .csv, .json, or give --format terminal, markdown, "
        "html, csv, json",
    ),
    ("check examples/mlp --head default", "the following arguments are required: --base"),
    (f"{CHECK} --python x", "--python: name the two sides with --base and --head"),
    (f"{CHECK} --head-env 1", "--head-env '1' must have the form NAME=VALUE"),
    (f"{CHECK} --json /dev/full", "cannot write /dev/full: No space left on device; name another file with --json"),
    ("tune examples/mlp --resume /nonexistent.json", "cannot read /nonexistent.json: No such file"),
    ("tune examples/mlp --dry-run --resume r.json", "--dry-run prints the plan of a new search; leave --resume"),
    ("tune examples/mlp --goal latensy", "did you mean 'latency'?"),
    (
        "tune examples/mlp --vary mode=eager,script --budget 5s",
        "--budget 5s is too short: a search of 2 settings starts at least 11 processes",
    ),
]
COMPARE = [
    ("a.json b.json", "cannot read a.json: No such file or directory"),
    ("a=STORED a=STORED", "two results are called a"),
    ("STORED STORED --fail-on faster", "--fail-on must be slower:3%, more:3% or one of"),
    ("STORED STORED --fail-on slower:3", "--fail-on 'slower:3': '3' may mean 3 % or 300 %; write it with its sign: 3%"),
    ("STORED STORED --fail-on more", "does not fit --metric latency; write slower (see"),
    ("STORED STORED --metric memory --fail-on slower:3%", "does not fit --metric memory; write more:3%"),
    ("STORED STORED --allow everything", "--allow must be one of weights, inputs"),
    ("STORED STORED --pair fp32:bf16", "must have the form BASE:OTHER"),
    ("STORED STORED --pair mode=script:mode=compile", "pairs nothing"),
    ("STORED STORED --redact", "--redact concerns the page only; name its file with -o FILE.html"),
    ("STORED STORED --assume-spread 0", "--assume-spread must be over 0 %"),
    ("STORED STORED --price @missing.csv", "--price: missing.csv cannot be read: No such file"),
    (
        "STORED STORED --metric memory --price BASE=1 --price OTHER=1",
        "--price needs --metric latency or throughput, not memory",
    ),
    ("STORED STORED -o page.pdf", "-o page.pdf: name a file that ends in .txt, .md, .html, .htm, .csv, .json, .xml"),
]
RUN = [
    ("run resnet5", "(torchvision, timm, hf); did you mean 'resnet50'?"),
    ("run --bf16 nosuch", "no workload 'nosuch': give one of resnet50, ssd, maskrcnn, bert, llm, a directory"),
    ("run examples/mlp examples/mlp", "workload mlp is named twice"),
    ("run bert --option sequence=5", "--option sequence=5: sequence must be 16 or more, not 5"),
    ("run examples/mlp bert --setting sequence=64", "workload mlp has no option 'sequence'"),
]
OF_MLP = [
    ("--thread 2", "arguments: --thread 2; did you mean '--threads'? (see modelzoo run --help)"),
    ("--json /nonexistent/r.json", "cannot write /nonexistent/r.json: there is no directory"),
    ("--batch 0", "--batch must be 1 or more, not 0"),
    ("--batch x", "argument --batch: invalid int value: 'x'"),
    ("--threads 100000", "--threads 100000: this machine has"),
    ("--warmup -1", "--warmup must be 0 or more, not -1"),
    ("--max-seconds nan", "--max-seconds must be a number over 0, not nan"),
    ("--seed -1", "--seed must be from 0"),
    ("--margin 5", "argument --margin: '5' may mean 5 % or 500 %; write it with its sign: 5%"),
    ("--margin 500%", "--margin must be over 0 % and under 100 %, not 500 %; write 5% or 0.05"),
    ("--budget 0s", "--budget must be over 0, not 0 s"),
    ("--budget 1s --dry-run", "--budget 1s is too short: 2 processes"),
    ("--mode compil", f"--mode must be one of {', '.join(choices('mode'))}, not 'compil'; did you mean 'compile'?"),
    ("--backend acl", "--backend must be one of auto, onednn, blas, not 'acl'"),
    ("--engine onnx", "--engine must be one of torch, onnxruntime, openvino, jittor, not 'onnx'"),
    ("--bf16=autocst", f"must be one of {', '.join(choices('bf16_method'))}, not 'autocst'; did you mean 'autocast'?"),
    ("--precision bf61", f"must be a list of {', '.join(choices('precision'))}, not 'bf61'; did you mean 'bf16'?"),
    ("--fp16 --bf16", "--fp16 together with --bf16 contradicts itself"),
    ("--fp16 --precision fp32", "--fp16 together with precision fp32 contradicts itself"),
    ("--channels-last=yes", "argument --channels-last: 'yes' is neither off nor on"),
    ("--input /nonexistent.jpg", "--input /nonexistent.jpg does not exist"),
    ("--python /nonexistent", "python=/nonexistent does not exist; name an environment such as"),
    ("--lock-clocks 900", "--lock-clocks locks the clocks of NVIDIA GPUs, and no setting uses one; add --device cuda"),
    ("--option depth", "--option 'depth' must have the form NAME=VALUE"),
    ("--option nosuch=1", "--option nosuch: none of these workloads has it (they have: depth"),
    ("--option depth=0", "--option depth=0: depth must be 1 or more, not 0"),
    ("--vary mode", "--vary 'mode' must have the form NAME=V1,V2"),
    ("--vary batch=1,", "--vary 'batch=1,' has an empty value"),
    ("--vary mode=compil", "error: --vary mode=compil: mode must be one of"),
    ("--vary moode=eager", "the workloads' own: depth, width); did you mean 'mode'?"),
    ("--vary batch=1,x", "batch must be a whole number, not 'x'"),
    ("--vary precision=fp64", "precision must be one of fp32, tf32, bf16, fp16, int8, not"),
    ("--vary depth=2,x", "--vary depth=x: depth cannot be 'x'"),
    ("--vary mode=eager --vary mode=script", "mode is varied twice"),
    ("--mode script --vary mode=eager", "--mode and --vary mode=… contradict each other"),
    ("--vary depth=1,2 --option depth=3", "--depth and --vary depth=… contradict"),
    ("--vary bf16=cast --precision fp32", "bf16 is not among the precisions"),
    ("--vary batch=1,01", "'batch=1' and 'batch=01' are the same setting"),
    (f"--vary seed={','.join(map(str, range(65)))}", "these are 65 settings of one workload"),
    ("--setting batch=0", "error: --setting batch=0: batch must be 1 or more, not 0"),
    ("--setting bf16=magic", "error: --setting bf16=magic: bf16 must be one of"),
    ("--setting ''", "names nothing; for the default setting, write mode=eager"),
    ("--setting compile", "'compile' must have the form NAME=VALUE"),
    ("--setting 'mode=eager mode=script'", "names mode twice"),
    ('--setting "input=\'a"', "No closing quotation"),
    ("--setting 'precision=fp32 bf16=cast'", "precision=fp32 and bf16=cast contradict"),
    ("--setting 'precision=bf16 recipe=dynamic'", "precision=bf16 and recipe=dynamic contradict"),
    ("--setting mode=eager --setting seed=0", "'mode=eager' and 'seed=0' are the same"),
    ("--setting mode=eager --precision bf16", "cannot be combined with --precision"),
    ("--setting mode=eager --vary batch=1,2", "cannot be combined with --vary"),
    ("--setting @/nonexistent", "--setting @/nonexistent cannot be read: No such file"),
    ("--baseline mode=script", "--baseline 'mode=script' is none of the settings of mlp"),
    ("--vary batch=1,8 --baseline fp16", "--baseline 'fp16' is none of the settings"),
    ("--vary batch=1,8 --baseline size=1", "--baseline: there is no option 'size'"),
]
THROUGHPUT = [
    ("--threads 2", "--threads follows from the cores of an instance; give --cores-per-instance N instead"),
    ("--device cuda", "--device cuda is not supported"),
    ("--include-copies", "--include-copies is for accelerators"),
    ("--rounds 0", "--rounds must be 1 or more, not 0"),
    ("--price free", "--price must be a price per hour over 0, or @FILE, not 'free'"),
]
LOAD = [
    ("", "give either --rate R, or --find with --slo"),
    ("--rate 10 --find --slo p99=50ms", "give either --rate R, or --find"),
    ("--find", "--find needs the bound to be met: --slo p99=50ms"),
    ("--rate 0", "--rate must be over 0"),
    ("--scenario offline --rate 10", "--scenario offline has neither a rate nor a bound"),
    ("--scenario single-stream --batch 4", "single-stream has one request at a time"),
    ("--rate 10 --instances 0", "--instances must be 1 or more, not 0"),
    ("--rate 10 --duration 0s", "--duration must be over 0"),
    ("--rate 10 --instances 5000 --cores-per-instance 1", "instances of 1 core"),
]
IN_FLEET = [
    ("validate resnet50 --shards-dir /proc/none", "name another --shards-dir DIR"),
    ("throughput resnet50 --json x", "with --json-dir DIR"),
    ("run nosuch", "(see modelzoo fleet run --help)\n"),
    ("run resnet50", "no Dask scheduler answers at tcp://127.0.0.1:1: "),
]
MISTAKES = [
    *COMMANDS,
    *((f"compare {words.replace('STORED', str(STORED))}", message) for words, message in COMPARE),
    *RUN,
    *((f"run {MLP} {words}", message) for words, message in OF_MLP),
    *((f"throughput {MLP} {words}", message) for words, message in THROUGHPUT),
    *((f"load {MLP} {words}", message) for words, message in LOAD),
    *((f"fleet {words} {FLEET}", message) for words, message in IN_FLEET),
]


def error(*words: object) -> str:
    """The only line on stderr of a call that ends with exit code 2, and has nothing on stdout."""
    code, out, err = called(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("modelzoo")
    return err


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda text: text[:50])
def test_a_mistake_is_one_line(words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the option, what it was and what it may be; no file is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("modelzoo.fleet.cluster.CONNECT_SECONDS", 1.0)
    assert message in error(*shlex.split(words))
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


@pytest.mark.parametrize(
    ("variable", "value", "words", "message"),
    [
        ("OMP_NUM_THREADS", "abc", f"run {MLP}", "OMP_NUM_THREADS=abc is not a number of threads"),
        ("DNNL_DEFAULT_FPMATH_MODE", "BF17", f"run {MLP}", "DNNL_DEFAULT_FPMATH_MODE=BF17 is unknown to oneDNN"),
        ("MODELZOO_RESULTS", "/etc/passwd", f"run {MLP}", "File exists; name another file with -o FILE"),
        ("MODELZOO_RESULTS", "/etc/passwd", CHECK, "File exists; name another file with --json FILE"),
        (
            *("MODELZOO_BACKEND", "acl", f"run {MLP}"),
            "MODELZOO_BACKEND=acl is not a backend; set it to one of auto, onednn, blas",
        ),
        ("TORCHELASTIC_RUN_ID", "none", "fleet run resnet50", "torchrun starts no fleet any more: start a Dask"),
    ],
)
def test_a_bad_environment_value_is_one_line(
    variable: str, value: str, words: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables are held to the same rule as options."""
    monkeypatch.setenv(variable, value)
    assert message in error(*words.split())


@pytest.mark.parametrize(
    ("command", "name", "instead"),
    [
        (command, name, instead)
        for commands, options in ENDED.items()
        for command in commands
        for name, instead in options.items()
        if command.startswith("modelzoo") and name.startswith("--")
    ],
)
def test_an_option_that_ended_names_what_to_do_instead(command: str, name: str, instead: str) -> None:
    """Whatever its value, and before anything else is looked at."""
    for option in ([name, "nonsense"], [f"{name}=3"]):
        assert instead in error(*command.split()[1:], "no-such-workload", *option)


@pytest.mark.parametrize("path", ["", "a" * 5000, "name=", "\udcff.json", "a\nb.json"])
def test_paths_that_cannot_be_read_are_one_line(path: str) -> None:
    """Empty, too long, without a path, not UTF-8, and with a line break."""
    error("compare", str(STORED), path)


@pytest.mark.parametrize("text", ["def (", "raise SystemExit(0)", "X = 1"])
def test_a_broken_workload_is_one_line(text: str, tmp_path: Path) -> None:
    """Syntax errors, exits and missing declarations, in a folder with a space."""
    folder = tmp_path / "my workload"
    folder.mkdir()
    (folder / "workload.py").write_text(text)
    assert str(folder / "workload.py") in error("run", folder)

"""Does another version show the same? Every view of many results, by two checkouts, compared.

``.venv/bin/python tests/equal_output.py OLD_CHECKOUT [NEW_CHECKOUT]`` is for a change that moves code and must not
change what people see. ``generated_results.py`` of OLD writes results, once; each checkout shows them in a process of
its own through every command, format and option below. What differs is written to KEEP/differences.txt, the same
difference of many cases once. Exit code 0: all equal, 1: something differs.

With --keep, the outputs stay (KEEP/old and KEEP/new, a file per case), and those of an unchanged OLD are used again.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fnmatch
import hashlib
import importlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple

HERE = Path(__file__).resolve()

# What a checkout calls what is shown. A place that has moved is added behind the old one.


def place(*names: str) -> Any:
    """The first of these that exists, each ``module:attribute``; ``modelzoo.report`` has become ``modelzoo.views``."""
    for name in (*names, *(name.replace("modelzoo.report.", "modelzoo.views.") for name in names)):
        module, _, attribute = name.partition(":")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), attribute)
    raise LookupError(f"none of {', '.join(names)} exists; say in tests/equal_output.py where it has moved to")


def console() -> Any:
    return place("modelzoo.report.terminal:console", "modelzoo.document.terminal:console")()


def former(name: str) -> Any:
    """A function that printed something before there were documents; ``None`` if it is gone."""
    with contextlib.suppress(LookupError):
        return place(name)


def show(name: str, document: str, found: Any, out: Any) -> None:
    """Print what was found: by the function that once did, else as the document that it is."""
    function = former(name)
    if function is not None:
        return function(found, out)
    out.print()
    return place("modelzoo.document.terminal:show")(place(document)(found), out)


def read(path: Path) -> Any:
    return place("modelzoo.results.store:read")(path)


def decoded(path: Path, kind: Any) -> Any:
    return place("modelzoo.records.codec:decode")(kind, json.loads(path.read_text()))


def stored(path: Path) -> Any:
    """A copy of a result that a command is free to write again."""
    result = read(path)
    copy = Path("out") / path.name
    return place("modelzoo.results.store:ResultFile")(copy, result)


def show_doctor(path: Path) -> int:
    report = decoded(path, place("modelzoo.records.doctor:DoctorReport"))
    function = former("modelzoo.report.doctor:show_doctor_report")
    if function is not None:
        function(console(), report)
    else:
        show("modelzoo.report.doctor:none", "modelzoo.report.doctor:document", report, console())
    place("modelzoo.cli.doctor:write_doctor_report")(report, Path("out/doctor.json"))
    return 0


def show_hosts(path: Path) -> int:
    show_comparison(decoded(path, place("modelzoo.records.hosts:FleetComparison")), console())
    return 0


def show_comparison(found: Any, out: Any) -> None:
    show("modelzoo.report.fleet:show_comparison", "modelzoo.report.fleet:comparison_document", found, out)


def show_exhibits(path: Path) -> int:
    writer = place("modelzoo.report.exhibits:ExhibitWriter")(Path("out"), "toy")
    for each in decoded(path, tuple[place("modelzoo.records.exhibits:Exhibit"), ...]):
        writer.write(each)
    print(*writer.files, [len(each.jpeg) for each in writer.thumbnails()])
    return 0


def end_run(path: Path) -> int:
    """What ``run`` and ``fleet validate`` print at their end."""
    file, out = stored(path), console()
    rows = place("modelzoo.results.summary:rows")(file.result)
    place("modelzoo.cli.run:_show")(file, rows, out, Namespace(details=False, profiling=True))
    for entry in file.result.validity:
        show("modelzoo.report.terminal:show_validity", "modelzoo.report.validity:document", entry, out)
    sharding = file.result.sharding
    show("modelzoo.report.fleet:show_sharding", "modelzoo.report.fleet:sharding_document", sharding, out)
    return place("modelzoo.cli.run:exit_code")(file.result, rows, True)


def end_tuning(path: Path) -> int:
    place("modelzoo.cli.tune:_show")(stored(path), "toy", "trace", console())
    return 0


def end_throughput(path: Path) -> int:
    out = console()
    place("modelzoo.cli.throughput:_show")(Namespace(plot=None, workload="toy"), stored(path), out)
    out.print(place("modelzoo.report.fleet:total_line")([read(path)] * 2))
    return 0


def end_load(path: Path) -> int:
    """What ``load`` prints while it runs and at its end."""
    file, out = stored(path), console()
    load = getattr(file.result, "load", None) or file.result.payload
    report = Namespace(
        **{name: place(f"modelzoo.report.load:{name}") for name in ("session_lines", "run_line", "command")}
    )
    for line in [line for session in load.sessions for line in report.session_lines(session, load)]:
        out.print(line, soft_wrap=True, markup=False)
    for run in load.runs:
        out.print(report.run_line(run, load), soft_wrap=True, markup=False)
    name = "modelzoo.report.terminal:show_load"
    show(name, "modelzoo.report.load:document", load if former(name) is None else file.result, out)
    drawn = former("modelzoo.report.plots.load:write_file")
    if drawn is None:
        data = place("modelzoo.views.plots.load:of_load")(load)
        drawn = place("modelzoo.views.plots.load:plot")(data) if data is not None else None
        command = report.command(file.result.command, load)
    else:
        command = report.command(file.result)
    place("modelzoo.cli.serving:end")(None, file, drawn, out)
    out.print(f"command: {command}", soft_wrap=True, markup=False)
    return 0 if place("modelzoo.results.load:is_valid")(load) else 1


def end_sessions(folder: Path) -> int:
    """What ``run --sessions`` and ``fleet run`` print of several results; what is kept of them is known afterwards."""
    results, out = [read(path) for path in sorted(folder.iterdir())], console()
    found = place("modelzoo.results.sessions:over_sessions")(results)
    show("modelzoo.report.sessions:show_sessions", "modelzoo.views.run:sessions_document", found, out)
    host_result = place("modelzoo.fleet.kinds:HostResult", "modelzoo.fleet.hosts:HostResult")
    histories = place("modelzoo.comparison.basis:read_histories", "modelzoo.comparison.levels:read_histories")
    named = [host_result(rank, f"host-{rank}", each) for rank, each in enumerate(results)]
    kinds = place("modelzoo.fleet.kinds:kinds", "modelzoo.fleet.hosts:kinds")(named, histories(results))
    show_comparison(place("modelzoo.records.hosts:FleetComparison")((), kinds), out)
    return 0


def remember(path: Path) -> int:
    """Keep what a result says of its machine, as ``run`` does; ``compare`` and ``doctor`` use it."""
    result = read(path)
    report = next(run.report for run in result.runs if run.report is not None)
    machine = getattr(report, "provenance", report).machine  # earlier checkouts have no provenance
    kept = place("modelzoo.results.session_levels:session_levels", "modelzoo.results.sessions:session_levels")(result)
    print(len(kept))
    place("modelzoo.machine.history:add_to_history")(kept, place("modelzoo.machine.history:history_path")(machine))
    return 0


def show_progress(path: Path) -> int:
    """What a call without a terminal says while it runs; a process takes 40 s here."""
    result, message = read(path), place("modelzoo.records.protocol:Progress")("steady", 120)
    progress = place("modelzoo.report.progress:LiveProgress")(console(), result, itertools.count(0.0, 20.0).__next__)
    with progress:
        progress.begin(900.0, 3)
        for run in result.runs:
            progress.update(Namespace(workload=run.workload, label=result.label(run.group), message=message))
            progress.finished(run)
    return 0


def show_parser(name: str) -> int:
    """The options of a command, what they take, and its help."""
    parser = place("modelzoo.cli.app:make_parser")()
    for word in name.split()[1:]:
        getattr(parser, "complete", lambda: None)()
        parser = subcommands(parser)[word]
    getattr(parser, "complete", lambda: None)()
    for each in parser._actions:
        choices = list(each.choices) if each.choices is not None else None
        print(each.option_strings or each.dest, each.nargs, each.required, each.default, choices)
    parser.print_help()
    return 0


def subcommands(parser: Any) -> dict[str, Any]:
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def command_names() -> Iterator[str]:
    waiting = [("modelzoo", place("modelzoo.cli.app:make_parser")())]
    for name, parser in waiting:
        getattr(parser, "complete", lambda: None)()
        yield name
        waiting += [(f"{name} {word}", each) for word, each in subcommands(parser).items()]


def script_help(name: str) -> int:
    workload, script = name.split("/")
    place(f"modelzoo.cli.app:{script}")(str(Path(os.environ["CHECKOUT"]) / workload / f"{script}.py"), ["--help"])
    return 0


ENDS = {"run": end_run, "tuning": end_tuning, "throughput": end_throughput, "load": end_load}
COMPARED = """
--details | --format markdown | --format markdown --details | --format csv | --format json | --format junit | --metric
throughput | --metric cold-start | --metric memory --fail-on more:3% | --fail-on slower:3%,ambiguous | --fail-on
not-comparable,unproven,invalid --format junit -o out/gate.xml | --allow
weights,inputs,batch,work,outputs,unproven,inactive,emulator,invalid,unrecorded --details | --assume-spread 2% --format
markdown -o out/table.md | --pair precision=fp32:precision=bf16 | --price a=1.5 --price b=2 --metric throughput
"""
MISTAKES = """
 | nosuch | report | report missing.json | report doctor | report results --redact
| report results -o out/p.html --details | compare STORED
| compare STORED missing.json | compare a=results b=results
| compare STORED STORED --fail-on worse | run nosuch
| run resnet50 --batch 0 | run resnet50 --precision int8 | run resnet50 --vary mode=fast | run resnet50 --margin 200%
| tune resnet50 --budget x | tune resnet50 --resume missing.json
| tune resnet50 --resume STORED | throughput resnet50 --slo 5 | throughput resnet50 --instances 0
| throughput resnet50 --rounds 0 | load resnet50 | load resnet50 --rate -1 | load resnet50 --find
| validate resnet50 --tolerance x | fleet | fleet run resnet50 --sessions 2 | fleet validate resnet50
| weights list | weights fetch nosuch | weights verify | --version
"""

# The cases.


class Case(NamedTuple):
    """One thing to look at: what it is called, the exit code of showing it, and the columns of the terminal if any."""

    name: str
    call: Callable[[], int]
    columns: int | None = None


def commands(*lines: str) -> Iterator[Case]:
    """Calls of ``modelzoo``, to a pipe."""
    main = place("modelzoo.cli:main")
    for line in lines:
        words = " ".join(line.split())
        yield Case(f"modelzoo {words}", lambda words=words: main(words.split(" ") if words else []))


def on_terminal(cases: Iterator[Case]) -> Iterator[Case]:
    """The same on a terminal of 100 columns."""
    return (Case(f"{case.name} on a terminal", case.call, 100) for case in cases)


def views(view: Callable[[Any], int], *subjects: Any) -> Iterator[Case]:
    """What a function above shows of some subjects."""
    for each in subjects:
        yield Case(f"{view.__name__} {each}", lambda each=each: view(each))


def pairs(results: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Results to compare: generated ones are pairs, the others are compared with themselves and with the next one."""
    for a, b in itertools.pairwise(results):
        if "-stored-" in a.name or "format" in a.name:
            yield from ((a, a), (a, b))
        elif a.stem[:-1] == b.stem[:-1]:
            yield a, b


def cases() -> Iterator[Case]:
    """Everything, in the directory that holds the results."""
    stored = sorted(Path("results").glob("run-*-mlp.json"))[-1]  # earlier generators call it run-format2-mlp.json
    yield from commands(*MISTAKES.replace("STORED", str(stored)).split("|"))
    yield from views(show_parser, *command_names())
    yield from views(
        script_help, *(f"{name}/{each}" for name in ("resnet50", "bert") for each in ("performance", "validate"))
    )
    results, folders = sorted(Path("results").iterdir()), sorted(Path("histories").iterdir())
    for number, path in enumerate(results):
        lines = [f"report {path}", f"report {path} --details"]
        yield from commands(*lines, f"report {path} --kernels")
        yield from on_terminal(commands(*lines))
        view = ENDS[path.name.partition("-")[0]]
        yield from views(view, path)
        yield from on_terminal(views(view, path))
        if not path.stem.endswith("b"):  # a page takes a second; the other results are on pages of several
            yield from commands(f"report {path} -o out/page.html")
        if number % 8 == 0:
            yield from commands(f"report {path} -o out/page.html --redact")
            yield from views(show_progress, path)
    for number, (a, b) in enumerate(pairs(results)):
        yield from commands(f"compare {a} {b}")
        if a.name.startswith(("run", "tuning")):
            yield from commands(*(f"compare a={a} b={b} {each}" for each in COMPARED.split("|")))
            yield from on_terminal(commands(f"compare {a} {b}"))
        if number % 3 == 0:
            yield from commands(f"compare {a} {b} {a}", f"report {a} {b} -o out/page.html")
    for path in folders:
        yield from views(end_sessions, path)
        yield from on_terminal(views(end_sessions, path))
        yield from commands(f"report {path}", f"report {path} -o out/page.html")
    for view, folder in ((show_doctor, "doctor"), (show_hosts, "fleet"), (show_exhibits, "exhibits")):
        found = sorted(Path(folder).iterdir())
        yield from views(view, *found)
        yield from on_terminal(views(view, *found))
    yield from views(remember, *(path for folder in folders for path in sorted(folder.iterdir())))
    for a, b in zip(folders[::2], folders[1::2]):
        yield from commands(f"compare {a} {b}", f"compare {a} {a} --details", f"report {a} {b} -o out/page.html")


# One checkout.


class Screen(io.TextIOWrapper):
    """A stream that is a terminal, or none."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def shown(case: Case) -> str:
    """All that a case shows: exit code, stdout, stderr and the files that it writes; of a traceback its last line."""
    shutil.rmtree("out", ignore_errors=True)
    Path("out").mkdir()
    os.environ["COLUMNS"] = str(case.columns or 80)
    before, streams = (sys.stdout, sys.stderr), (Screen(bool(case.columns)), Screen(bool(case.columns)))
    sys.stdout, sys.stderr = streams
    try:
        code: object = case.call()
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        code = f"traceback, {type(error).__name__}: {error}"
    finally:
        sys.stdout, sys.stderr = before
    if code == 130:  # a command has caught Ctrl-C
        raise KeyboardInterrupt
    parts = [f"$ {case.name}", f"exit code: {code}", "--- stdout", streams[0].text(), "--- stderr", streams[1].text()]
    for file in sorted(path for path in Path("out").rglob("*") if path.is_file()):
        if not (Path("results") / file.name).exists():  # the format of a result is not what is compared
            data = file.read_bytes()
            is_text = file.suffix not in (".png", ".jpg")
            parts += [f"--- {file}", data.decode() if is_text else hashlib.sha256(data).hexdigest()]
    text = "\n".join(parts) + "\n"
    for path, name in (
        (Path(sys.executable).parent, "bin"),
        (os.environ["CHECKOUT"], "checkout"),
        (Path.cwd(), "root"),
    ):
        text = text.replace(str(path), f"<{name}>")
    return text


def show_all(checkout: str, pattern: str) -> None:
    """Write what every case shows into the directory ``shown``."""
    import modelzoo

    assert Path(str(modelzoo.__file__)).is_relative_to(checkout), f"{modelzoo.__file__} is not of {checkout}"
    warnings.simplefilter("ignore")
    Path("shown").mkdir()
    for case in cases():
        if fnmatch.fnmatch(case.name, pattern) or case.name.startswith("remember"):
            number = hashlib.sha256(case.name.encode()).hexdigest()[:8]
            name = re.sub(r"[^\w.=-]+", "_", case.name)[:150]
            Path("shown", f"{name}-{number}.txt").write_text(shown(case), encoding="utf-8")


# Both of them.


def start(checkout: Path, root: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start Python with the package of a checkout, in ``root``; nothing depends on the user or on earlier calls."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    directories = {"HOME": root / "home", "MODELZOO_CACHE": root / "cache", "MODELZOO_RESULTS": root / "own"}
    environment = {
        **kept,
        **{name: str(path) for name, path in directories.items()},
        "CHECKOUT": str(checkout),
        "PYTHONPATH": str(checkout),
        "MPLCONFIGDIR": str(root.parent / "matplotlib"),
        **{"MODELZOO_OFFLINE": "1", "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
        **{"TERM": "xterm-256color", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
    }
    return subprocess.Popen([sys.executable, *words], cwd=root, env=environment, stdin=subprocess.DEVNULL)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("equal_output: a process failed; see above")


def version(checkout: Path, *rest: object) -> str:
    """What the outputs of a checkout depend on; empty if it has changes that are not committed."""
    git = ["git", "-C", str(checkout)]
    head, changes = (
        subprocess.run([*git, *words], capture_output=True, text=True, check=False)
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno"])
    )
    is_known = head.returncode == 0 and not changes.stdout
    return " ".join([head.stdout.strip(), sha256(HERE), *map(str, rest)]) if is_known else ""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def prepare(args: Namespace, keep: Path) -> None:
    """Write the results, and let both checkouts show them; OLD only if it has changed since it did."""
    generator = next(
        path
        for path in (args.old / "tests" / "generated_results.py", HERE.with_name("generated_results.py"))
        if path.is_file()
    )
    old, new, inputs, key = keep / "old", keep / "new", keep / "inputs", keep / "old.key"
    wanted = version(args.old, sha256(generator), args.generated, args.only)
    is_known = bool(wanted) and key.is_file() and key.read_text() == wanted
    for path in (new, *([] if is_known else [old, inputs])):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    worker = [str(HERE), "--worker", args.only]
    processes = []
    if not is_known:
        key.unlink(missing_ok=True)
        finish(start(args.old, inputs, str(generator), str(inputs), str(args.generated)))
        shutil.copytree(inputs, old, dirs_exist_ok=True)
        processes.append(start(args.old, old, *worker, str(args.old)))
    if args.convert is None:
        shutil.copytree(inputs, new, dirs_exist_ok=True)
    else:
        finish(start(args.new, new, str(args.convert), str(inputs), str(new)))
    finish(*processes, start(args.new, new, *worker, str(args.new)))
    key.write_text(wanted)


class Group(NamedTuple):
    """A difference that recurs: how it looks first, and the cases that have it."""

    lines: list[str]
    cases: list[str]


def differences(old: str, new: str) -> Iterator[list[str]]:
    """The hunks of a unified diff, each element of a page on a line of its own."""
    texts = [text.replace("><", ">\n<").split("\n") for text in (old, new)]
    lines = list(difflib.unified_diff(*texts, n=2, lineterm=""))[2:]
    starts = [number for number, line in enumerate(lines) if line.startswith("@@")]
    return (lines[a + 1 : b] for a, b in itertools.pairwise([*starts, len(lines)]))


def essence(lines: list[str]) -> frozenset[tuple[str, str]]:
    """The words of a hunk that were replaced, and by which; any number is as good as another one."""
    changed = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    old, new = (re.findall(r"\w+|[^\w\s]", re.sub(r"\d+(\.\d+)?", "0", text)) for text in changed)
    if len(old) + len(new) > 5000:  # drawings; comparing their words would take long
        return frozenset({(" ".join(old), " ".join(new))})
    edits = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return frozenset((" ".join(old[a:b]), " ".join(new[c:d])) for tag, a, b, c, d in edits if tag != "equal")


def intended(path: Path | None) -> list[tuple[str, str]]:
    """The substitutions ``PATTERN => REPLACEMENT`` of a file; lines that begin with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    pairs = [line.partition(" => ") for line in lines if line.strip() and not line.startswith("#")]
    return [(pattern, replacement) for pattern, _, replacement in pairs]


def compare(args: Namespace, keep: Path) -> tuple[str, bool]:
    """Compare what both checkouts have shown; return the report, and whether all is equal."""
    rules = dict.fromkeys(intended(args.intended), 0)
    groups: dict[frozenset[tuple[str, str]], Group] = {}
    folders = keep / "old" / "shown", keep / "new" / "shown"
    names = sorted({path.name for folder in folders for path in folder.iterdir()})
    different = tracebacks = 0
    for name in names:
        files = [folder / name for folder in folders]
        old, new = (file.read_text(encoding="utf-8") if file.is_file() else "no such case\n" for file in files)
        tracebacks += "\nexit code: traceback" in old
        for rule in rules:
            old, count = re.subn(*rule, old, flags=re.MULTILINE)
            rules[rule] += count > 0
        if args.without_drawings:
            old, new = (re.sub(r"<svg.*?</svg>", "<svg/>", text, flags=re.DOTALL) for text in (old, new))
        different += old != new
        for lines in differences(old, new) if old != new else ():
            groups.setdefault(essence(lines), Group(lines, [])).cases.append(name)
    summary = (
        f"{len(names)} cases: {len(names) - different} equal, {different} different; {tracebacks} tracebacks in OLD"
    )
    parts = [summary, *(f"intended, in {count} cases: {' => '.join(rule)}" for rule, count in rules.items())]
    for lines, found in sorted(groups.values(), key=lambda group: -len(group.cases)):
        some = "".join(f"\n  {each}" for each in list(dict.fromkeys(found))[:3])
        parts.append(f"\n==== {len(set(found))} cases, such as{some}\n" + "\n".join(line[:500] for line in lines[:60]))
    return "\n".join(parts) + "\n", different == 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the checkout that shows what is right")
    parser.add_argument("new", type=Path, nargs="?", default=HERE.parents[1], help="default: the one of this file")
    parser.add_argument("--generated", type=int, default=200, metavar="N", help="results to generate (default 200)")
    parser.add_argument(
        "--only", default="*", metavar="GLOB", help="only cases whose name matches: 'modelzoo compare*'"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep everything in DIR, and use it again")
    parser.add_argument(
        "--intended", type=Path, metavar="FILE", help="lines 'REGEX => TEXT', applied to the output of OLD"
    )
    parser.add_argument(
        "--convert",
        type=Path,
        metavar="PROGRAM",
        help="Python file, called with two directories: writes the first one's files as NEW reads them into the second",
    )
    parser.add_argument("--without-drawings", action="store_true", help="do not compare what is inside of <svg>")
    args = parser.parse_args(words)
    args.old, args.new = args.old.resolve(), args.new.resolve()
    args.convert = args.convert and args.convert.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        keep = Path(temporary) if args.keep is None else args.keep.resolve()
        prepare(args, keep)
        report, is_equal = compare(args, keep)
    if args.keep is not None:
        (keep / "differences.txt").write_text(report, encoding="utf-8")
    print(report, end="")
    return 0 if is_equal else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        show_all(sys.argv[3], sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))

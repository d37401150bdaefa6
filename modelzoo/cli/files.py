"""Files that are named on the command line, and where a command's output goes: on stdout, and to the result's file."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.errors import EnvironmentProblem, InputError, UsageError
from modelzoo.files import write_atomically
from modelzoo.formatting import for_people, printable, shown_json

if TYPE_CHECKING:
    from modelzoo.cli.selection import Jobs
    from modelzoo.comparison.machines import Price
    from modelzoo.document import Block
    from modelzoo.records.race import MachinePrice
    from modelzoo.records.run import Result
    from modelzoo.results.store import ResultFile
    from modelzoo.results.summary import SummaryRow


SUFFIXES = {".txt": "terminal", ".md": "markdown", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}
SUFFIXES[".xml"] = "junit"
"""The format that the name of a file asks for."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, 128 + SIGINT, as shells have it."""
STDOUT = "-"
"""What ``-o`` calls stdout."""


def print_result(stored: ResultFile, lines: Sequence[str], output: str | None) -> None:
    """Print the lines for scripts on stdout; if ``-o -`` asked for the result there, they go to stderr.

    Raises:
        EnvironmentProblem: stdout cannot be written to.
    """
    if output != STDOUT:
        print_lines(lines)
        return
    for line in lines:
        print(printable(line), file=sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    from modelzoo.results.store import contents

    _write([shown_json(contents(stored.result).decode()).rstrip("\n")])


def say_where(stored: ResultFile, say: Callable[[str], object], *, details: bool = False) -> None:
    """Call ``say`` with the lines that name the command for the details of a result, and its file, if there is one."""
    if not stored.is_kept:
        return
    if details:
        say(f"details: {details_command(stored.path)}")
    say(f"result: {stored.path}")


def stored_code(stored: ResultFile, code: int) -> int:
    """Return the exit code of a call; 2, after saying so, if its result is not in the file that was named."""
    if not stored.problem:
        return code
    tell(f"modelzoo: error: {kept_text(stored.problem, stored.path if stored.is_kept else None)}")
    return 2


def kept_text(problem: str, place: Path | None) -> str:
    """Return the error about a file that could not be written, by what ``store.keep`` has returned."""
    return f"{problem}; it is in {place or 'no file'}"


def tell(line: str) -> None:
    """Print a line for people on stderr. Nothing in it begins another line, moves the cursor or sets a colour."""
    print(for_people(line), file=sys.stderr)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for scripts on stdout, each escaped; raises what ``print_text`` does."""
    _write(map(printable, lines))


def _write(lines: Iterable[str]) -> None:
    """Print to stdout, after everything that went to stderr."""
    sys.stderr.flush()
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise EnvironmentProblem(f"cannot write to stdout: {error.strerror}") from error


def print_document(blocks: Sequence[Block]) -> None:
    """Print what a command is for on stdout: fitted to a terminal; in a pipe without colours, and nothing is left out.

    Raises:
        EnvironmentProblem: stdout cannot be written to.
    """
    from modelzoo.document import terminal

    is_terminal = sys.stdout.isatty()
    width = {"width": shutil.get_terminal_size().columns} if is_terminal else {}
    print_text(terminal.text(blocks, colour=is_terminal, **width))


def print_text(text: str) -> None:
    """Print what a format has made of a document, and escaped, on stdout.

    Raises:
        EnvironmentProblem: stdout cannot be written to (the disk is full).
    """
    _write(text.removesuffix("\n").split("\n"))


def output_file(named: str | None) -> Path | None:
    """Return the file that ``-o`` names, in a directory that exists; ``None``: stdout.

    Raises:
        UsageError: there is no such directory.
    """
    if named is None or named == STDOUT:
        return None
    check_directory(Path(named))
    return Path(named)


def format_of(asked: str | None, target: Path | None, formats: Sequence[str]) -> str:
    """Return the format of an output: the one that was asked for, or that of the file's suffix; on stdout for people.

    Args:
        asked: by ``--format``.
        target: the file that ``output_file`` returned.
        formats: that the command can write.

    Raises:
        UsageError: it is none of these.
    """
    form = asked or ("terminal" if target is None else SUFFIXES.get(target.suffix, ""))
    if form in formats:
        return form
    given = f"--format {asked}" if asked else f"-o {target}"
    endings = ", ".join(suffix for suffix, each in SUFFIXES.items() if each in formats)
    pages = "; 'modelzoo report RESULT … -o page.html' writes a page" if form == "html" else ""
    raise UsageError(f"{given}: name a file that ends in {endings}, or give --format {', '.join(formats)}{pages}")


def deliver(text: str, target: Path | None) -> None:
    """Print a text on stdout, or write it to the file that ``output_file`` returned.

    Raises:
        UsageError: it cannot be written. It has been printed then.
    """
    if target is None:
        print_text(text)
        return
    try:
        write_output(target, text)
    except UsageError:
        print_text(text)
        raise


def write_output(path: Path, text: str) -> None:
    """Write what ``-o FILE`` asked for, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with -o FILE") from error


def check_directory(path: Path) -> None:
    """Refuse a file in a directory that does not exist, before anything runs.

    Raises:
        UsageError: there is no such directory.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {parent}; create it, or name another file")


def write_reproducers(path: Path, result: Result, say: Callable[[str], object]) -> None:
    """Write a script for each kernel that is wrong, or ran in another precision than asked for, beside the result.

    Args:
        path: of the result.
        result: whose scripts they are.
        say: is called with a line for each script, after it has been written, or with the reason why it was not.
    """
    from modelzoo.views.recipe import scripts

    for ending, text in scripts(result).items():
        target = path.with_name(path.stem + ending)
        try:
            write_atomically(target, text)
        except OSError as error:  # the disk is full
            say(f"no reproducer: {target} cannot be written: {error.strerror}")
        else:
            say(f"reproducer: {target}")


def details_command(path: Path) -> str:
    """The command that shows the details of a stored result, as it can be typed in this shell."""
    program = "modelzoo" if shutil.which("modelzoo") else str(Path(sys.executable).with_name("modelzoo"))
    return f"{program} report {shlex.quote(str(path))} --details"


def result_path(named: str | None, created: str, option: str = "-o") -> Path:
    """Return ``named``, or a new, empty file called after the time of the call.

    Raises:
        UsageError: the directory of ``named`` does not exist, or the one of results cannot be written to; ``option``
            names another file.
    """
    if named and named != STDOUT:
        path = Path(named)
        check_directory(path)
        return path
    from modelzoo.results.store import reserve

    return reserve(results_directory() / f"{file_stem(created)}.json", option=option)


def results_directory() -> Path:
    """MODELZOO_RESULTS, or else ``results`` of the checkout or, if there is none, of the current directory."""
    from modelzoo.workload.discovery import CHECKOUT, is_checkout

    parent = CHECKOUT if is_checkout() else Path.cwd()
    return Path(os.environ.get("MODELZOO_RESULTS") or parent / "results")


def file_stem(created: str) -> str:
    """The time of a call, as files are called after it."""
    return created.replace(":", "").replace("+0000", "Z")


def new_result(jobs: Jobs, name: str = "") -> Result:
    """Return the empty result of a call that runs ``jobs``; ``name`` is its ``--label``."""
    from modelzoo.records.run import Result, SettingRequest, now
    from modelzoo.workload.discovery import CHECKOUT, suite_revision

    requested = tuple(SettingRequest(work.name, setting) for work, settings in jobs for setting in settings)
    return Result(
        command=tuple(sys.argv), created=now(), requested=requested, commit=suite_revision(CHECKOUT), name=name
    )


def result_lines(result: Result, rows: Sequence[SummaryRow]) -> list[str]:
    """The lines for stdout: ``[VALID]`` for each judgement, then ``[TARGET]`` for each row that was timed."""
    from modelzoo.results import summary
    from modelzoo.views.judgement import valid_line

    judged = [entry.report.validity for entry in result.validity if entry.report is not None]
    return [*map(valid_line, judged), *summary.target_lines(rows)]


def result_files(path: Path) -> list[Path]:
    """Return the files that ``path`` stands for: itself, or the JSON files directly in it, sorted by name.

    Raises:
        InputError: it is a directory that cannot be read, or has no such files.
    """
    try:
        if not path.is_dir():
            return [path]
        files = sorted(each for each in path.iterdir() if each.match("[!.]*.json") and each.is_file())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not files:
        raise InputError(f"{path} contains no results (*.json)")
    return files


def read_all(paths: list[str]) -> list[tuple[str, Result]]:
    """Read every file that ``paths`` stand for, before anything is done with one of them.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
    """
    from modelzoo.results import store

    return [(path_text(file), store.read(file)) for path in paths for file in result_files(Path(path))]


def short_names(paths: Sequence[Path], given: Sequence[str] = ()) -> list[str]:
    """Return a name for each path: as much of its end as tells it from the others, without ``.json``.

    If a path occurs several times, its names are numbered.

    Args:
        paths: the paths.
        given: the name that was given to each of them, empty if there is none; by default none has one.
    """
    full = [Path(os.path.normpath(path.absolute())) for path in paths]
    own = given or [""] * len(full)
    for count in range(1, max(len(path.parts) for path in full) + 1):
        names = [name or _end(path, count) for name, path in zip(own, full)]
        if len(set(names)) == len(names):
            return names
    names = [name or _end(path, 1) for name, path in zip(own, full)]
    return [name if name not in names[:i] else f"{name} #{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def path_text(path: Path) -> str:
    """Return the path as text; bytes that are not UTF-8 are escaped."""
    return str(path).encode(errors="backslashreplace").decode()


def _end(path: Path, count: int) -> str:
    """The last ``count`` parts of a path, without the ending ``.json``."""
    shown = path.with_suffix("") if path.suffix == ".json" else path
    return path_text(Path(*shown.parts[-count:]))


def read_prices(given: Sequence[str]) -> tuple[Price, ...]:
    """Return the prices that ``NAME=PRICE`` and ``@FILE`` give; the format of the file is in ``comparison.machines``.

    Raises:
        UsageError: a value or a row of a file is no price.
        InputError: a file cannot be read.
    """
    from modelzoo.comparison.machines import parse_price

    return tuple(price for text in given for price in (_listed(text[1:]) if text[:1] == "@" else [parse_price(text)]))


def machine_price(given: str, instance_type: str | None) -> MachinePrice:
    """Return the price of this machine that ``PRICE``, ``NAME=PRICE`` or ``@FILE`` gives.

    Args:
        given: the value of ``--price``.
        instance_type: the name under which a price list has this machine, if the provider tells.

    Raises:
        UsageError: the value is no price, or the list has no price for this type of machine.
        InputError: the file cannot be read.
    """
    from modelzoo.comparison.machines import parse_price
    from modelzoo.records.race import MachinePrice

    if not given.startswith("@"):
        try:
            price = parse_price(given if "=" in given else f"this machine={given}")
        except UsageError:
            raise UsageError(f"--price must be a price per hour over 0, or @FILE, not {given!r}") from None
        return MachinePrice(price.per_hour, price.currency)
    listed = next((price for price in _listed(given[1:]) if price.name == instance_type), None)
    if listed is None:
        type_text = f"of type {instance_type}" if instance_type else "whose type the firmware does not tell"
        raise UsageError(f"--price: {given[1:]} has no price for this machine, {type_text}; give the number itself")
    return MachinePrice(listed.per_hour, listed.currency, listed.date, listed.source)


def _listed(path: str) -> tuple[Price, ...]:
    from modelzoo.comparison.machines import parse_price_list

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InputError(f"--price: {path} cannot be read: {reason}; it must be a CSV file") from error
    return parse_price_list(text, Path(path).name)

"""Files that calls read and write: results, and lists of prices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelzoo.cli import files as output_files
from modelzoo.cli import fleet
from modelzoo.cli.files import machine_price, read_prices, result_files, short_names
from modelzoo.cli.options import Fleet
from modelzoo.comparison.machines import Price
from modelzoo.errors import InputError, UsageError
from modelzoo.records.race import MachinePrice
from modelzoo.workload import discovery

CREATED = "2026-01-02T03:04:05+0000"


def test_results_of_one_second_never_replace_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even before either call has written anything; the hosts of a fleet have a directory."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    monkeypatch.setattr("modelzoo.records.run.now", lambda: CREATED)
    files = [output_files.result_path(None, CREATED) for _ in range(2)]
    assert files == [tmp_path / "2026-01-02T030405Z.json", tmp_path / "2026-01-02T030405Z-1.json"]
    fleets = [fleet.directory_of(Fleet(scheduler="")) for _ in range(2)]
    assert fleets == [tmp_path / "fleet-2026-01-02T030405Z", tmp_path / "fleet-2026-01-02T030405Z-1"]
    assert all(path.is_dir() for path in fleets)


def test_results_of_an_installed_suite_are_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a checkout are in it; site-packages is no place for results."""
    monkeypatch.delenv("MODELZOO_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert output_files.results_directory() == discovery.CHECKOUT / "results"
    monkeypatch.setattr(discovery, "CHECKOUT", tmp_path / "site-packages")
    assert output_files.results_directory() == tmp_path / "results"


def test_the_command_for_details_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program has a path unless it is found without one, and a path with a space is quoted."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a b.json"
    own = Path(sys.executable).with_name("modelzoo")
    assert output_files.details_command(path) == f"{own} report '{path}' --details"
    (tmp_path / "modelzoo").touch(0o755)
    assert output_files.details_command(path) == f"modelzoo report '{path}' --details"


def test_lines_for_people_and_for_scripts_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A name in them begins no other line and moves no cursor; scripts find no line of theirs on stderr."""
    output_files.tell("modelzoo: error: x\n[TARGET] toy Time 1\x1b[2J")
    output_files.print_lines(["[TARGET] x\n[TARGET] toy Time 1\x9b"])
    captured = capsys.readouterr()
    assert captured.err == r"modelzoo: error: x\n\x5bTARGET] toy Time 1\x1b[2J" + "\n"
    assert captured.out == r"[TARGET] x\n[TARGET] toy Time 1\x9b" + "\n"


def test_what_cannot_be_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of ``check`` took minutes to measure; the error comes all the same."""
    with pytest.raises(UsageError, match="cannot write"):
        output_files.deliver("page\n", tmp_path / "none" / "page.md")
    assert capsys.readouterr().out == "page\n"


def test_a_directory_stands_for_the_json_files_in_it(tmp_path: Path) -> None:
    """Hidden files, other files and directories are left out."""
    for name in ("b.json", "a.json", "c.svg", ".d.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "e.json").mkdir()
    assert result_files(tmp_path) == [tmp_path / "a.json", tmp_path / "b.json"]
    assert result_files(tmp_path / "c.svg") == [tmp_path / "c.svg"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/r/a.json"], ["a"]),
        (["/r/a.json", "/r/b.json"], ["a", "b"]),
        (["/r/x/s1.json", "/r/y/s1.json"], ["x/s1", "y/s1"]),
        (["/r/a.json", "/r/a.json", "/r"], ["a", "a #2", "r"]),
        (["/"], ["/"]),
    ],
)
def test_names_are_as_short_as_they_can_be(paths: list[str], names: list[str]) -> None:
    """The end of each path that tells it from the others."""
    assert short_names([Path(path) for path in paths]) == names


PRICES = "name,per_hour,currency,date\nc7g.large,0.07,USD,2026-11-01\n"


def test_prices_are_given_one_by_one_and_in_files(tmp_path: Path) -> None:
    """A byte order mark, as Excel writes it, is no part of the first column; what is no text is refused."""
    path = tmp_path / "cloud.csv"
    path.write_text(PRICES, encoding="utf-8-sig")
    listed = Price("c7g.large", 0.07, "USD", "2026-11-01", "cloud.csv")
    assert read_prices(["BASE=0.42", f"@{path}"]) == (Price("BASE", 0.42), listed)
    path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    with pytest.raises(InputError, match="--price: .* cannot be read: it is not UTF-8 text"):
        read_prices([f"@{path}"])


def test_the_price_of_this_machine_is_a_number_or_in_a_list(tmp_path: Path) -> None:
    """A list has it under the type of the instance, which not every firmware tells."""
    path = tmp_path / "cloud.csv"
    path.write_text(PRICES)
    assert machine_price("mine=4.5", None) == MachinePrice(4.5)
    assert machine_price(f"@{path}", "c7g.large") == MachinePrice(0.07, "USD", "2026-11-01", "cloud.csv")
    for kind, message in (("c7g.metal", "of type c7g.metal; give the number"), (None, "whose type the firmware does")):
        with pytest.raises(UsageError, match=f"has no price for this machine, {message}"):
            machine_price(f"@{path}", kind)

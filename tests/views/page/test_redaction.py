"""What --redact removes, and what stays."""

from __future__ import annotations

from fake_runs import WEIGHTS, make, result_of, warning
from paged import page_of
from places import DATA

from modelzoo.document.html import html
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.run import Result, Thumbnail, ValidityEntry
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store
from modelzoo.setting import Setting
from modelzoo.views.page.redaction import redacted
from modelzoo.warning import WarningCode, warning_for

SECRETS = ("joe", "acme", "secret", "cat.jpg", "hostname7", "10.1.2.3")


def private() -> Result:
    """A result that names a user, a host, paths and files."""
    setting = Setting(weights="/srv/acme/secret-model.pt", input="/home/joe/My Pictures/cat.jpg", batch=1)
    weights = replace(WEIGHTS, kind=WeightsKind.PATH, name="secret-model.pt", path="/srv/acme/secret-model.pt")
    found = warning("X", "LD_PRELOAD=/opt/acme/lib.so is set; see ~/joe/notes.txt", "ask joe@acme.example")
    run = make([0.1] * 3, setting=setting, weights=weights, warnings=(found,))
    failed = make(None, setting=Setting(batch=2), error="cannot read /data/acme/secret model/x.bin: on hostname7")
    result = result_of(run, failed)
    command = (
        *("/home/joe/venv/bin/modelzoo", "run", "./acme/net", "--weights", "/srv/acme/secret-model.pt"),
        *("--input=/home/joe/My Pictures/cat.jpg", "--json", "secret", "--output", "a b/secret", "--batch", "1"),
    )
    entry = ValidityEntry(
        *("toy", 0, setting, 2),
        error="secret-model.pt is damaged",
        files=("out/acme/cat_compared.jpg",),
        thumbnails=(Thumbnail("cat_compared.jpg", b"jpeg"),),
    )
    return replace(result, command=command, validity=(entry,))


def test_nothing_private_is_left_in_result_or_page() -> None:
    """Paths, names of files, users, hosts and pictures."""
    found = redacted(private(), ["hostname7", "joe"])
    for shown in (encode_json(found).decode(), html(page_of(found))):
        assert [secret for secret in SECRETS if secret in shown] == []
        assert "cat" not in shown.replace("category", "").replace("indicat", "").split()
    assert found.validity[0].thumbnails == ()


def test_what_was_measured_stays() -> None:
    """Samples, settings, hardware and versions are those of the result."""
    before, after = private(), redacted(private())
    assert [(run.workload, run.steady) for run in before.runs] == [(run.workload, run.steady) for run in after.runs]
    mine, theirs = (result.runs[0].report for result in (before, after))
    assert theirs.provenance.machine == mine.provenance.machine
    assert theirs.setting.batch == 1
    assert theirs.prepared.weights.sha256 == mine.prepared.weights.sha256


def test_hints_of_the_suite_can_still_be_followed() -> None:
    """They name variables with the values to set; a hint with something filled in is held to the same rule as any."""
    hint = warning_for(WarningCode.PAGE_FAULTS, faults=9, when="per second").hint
    given = (warning("PAGE_FAULTS", "MALLOC_TOP_PAD_=1 is set", hint), warning("PAGE_FAULTS", "m", f"{hint} A_B=1"))
    report = redacted(result_of(make([0.1], warnings=given))).runs[0].report
    first, second = report.warnings
    assert first.message.startswith("hidden-")
    assert first.hint == hint
    assert second.message == "m"
    assert second.hint.startswith("hidden-")


def test_the_command_can_still_be_read() -> None:
    """Options stay, equal paths get equal substitutes."""
    assert redacted(private()).command == (
        *("modelzoo", "run", "hidden-1", "--weights", "hidden-2", "--input=hidden-3", "--json", "hidden-4"),
        *("--output", "hidden-5", "--batch", "1"),
    )
    report = redacted(private()).runs[0].report
    assert report.prepared.weights.path == "hidden-2"
    plain = Result(("modelzoo", "run", "bert", "--weights", "random", "--vary", "mode=eager,compile"), "2026")
    assert redacted(plain).command == plain.command


def test_stored_results_can_be_redacted() -> None:
    """No path is left, not even in a field that is public by mistake."""
    for path in (DATA / "results").glob("*.json"):
        text = encode_json(redacted(store.read(path))).decode()
        assert ("~/" in text, "/home/" in text) == (False, False), path

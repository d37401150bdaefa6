"""What settings share, how they are told apart, and the conditions that may distort them."""

from __future__ import annotations

from collections.abc import Callable

from example_machine import LIBRARIES, machine_with
from fake_runs import WEIGHTS, make, shown, warning

from modelzoo.frozen import replace
from modelzoo.records.workload import WeightsKind
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views import differences
from modelzoo.views.differences import conditions
from modelzoo.warning import WarningCode, WarningMessage, warning_for

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 5
XEON = machine_with(cpu="Intel(R) Xeon(R) Platinum 8581C CPU @ 2.30GHz")
GUEST = machine_with(hypervisor="KVM", cloud="AWS", instance_type="c8g.2xlarge", cores=4)


def settings(*requested: Setting) -> list[SummaryRow]:
    """One row per setting."""
    return shown(*(make(STEADY, setting=each) for each in requested))


def named() -> dict[str, list[SummaryRow]]:
    """Rows by what decides their names, what they share, or their machine."""
    compiled, pythons = Setting(mode="compile", batch=2), ("~/envs/torch-2.9.1/bin/python", "~/.venv/bin/python", None)
    options = [Setting(options={"depth": depth}) for depth in (3, 4)]
    torch = {"versions": {"torch": "2.10.0"}}
    jittor = make(STEADY, setting=Setting(engine="jittor"), engine="jittor", versions={"jittor": "1.3.11"})
    trained = {
        f"weights, {each}": shown(
            make(STEADY, weights=replace(WEIGHTS, kind=WeightsKind.PRETRAINED, verification=each))
        )
        for each in ("full", "partial", "none", None)
    }
    return {
        "every field": settings(Setting(), compiled.replace(channels_last=True), Setting(malloc="tcmalloc", threads=2)),
        "a setting that failed at once": shown(make(STEADY), make(None, setting=Setting("bf16"), error="died")),
        "two methods": settings(Setting("bf16", bf16_method="cast"), Setting("bf16")),
        "what is not at its default": settings(compiled, compiled.replace(threads=3)),
        "several processes": shown(*(make(STEADY, round=i) for i in range(3)), make(STEADY, workload="other")),
        "options": settings(*options),
        "an option": settings(options[0]),
        "options of workloads": shown(*(make(STEADY, setting=s, workload=w) for s, w in zip(options, "ab"))),
        "inputs": settings(*(Setting(input=f"/home/me/{name}.jpg") for name in "ab")),
        "interpreters": settings(*(Setting(python=each) for each in pythons)),
        "images": settings(*(Setting(image=f"zoo:torch2_{backend}") for backend in ("acl", "openblas"))),
        **trained,
        "two versions": shown(
            *(make(STEADY, machine=XEON, workload=v, versions={"torch": v}) for v in ("2.9", "2.10"))
        ),
        "two machines": shown(
            make(STEADY, machine=machine_with(cores=4)), make(STEADY, machine=XEON, workload="other")
        ),
        "two engines": shown(make(STEADY, **torch), jittor),
        "an instance": shown(make(STEADY, machine=GUEST, libraries=LIBRARIES, **torch)),
        "a cloud": shown(make(STEADY, machine=replace(GUEST, cloud="Azure", instance_type=None))),
    }


def test_settings_are_told_apart_by_what_differs(approved: Callable[[str, str], None]) -> None:
    """What all share is said once; paths, which are private and long, by their names; a machine if it is one."""
    said = []
    for name, rows in named().items():
        said += [f"{name}: {' | '.join(differences.full_names(rows))}", f"    {', '.join(differences.shared(rows))}"]
        said += [f"    on {differences.machine(rows) or 'several machines'}"]
    approved("said/settings.txt", "".join(f"{each}\n" for each in said))


def with_warnings(*warnings: tuple[WarningMessage, ...]) -> list[SummaryRow]:
    """One workload ``a`` and one ``b``, each in fp32 and bf16, with these warnings in turn."""
    places = [("a", Setting()), ("a", Setting("bf16")), ("b", Setting()), ("b", Setting("bf16"))]
    runs = [
        make(STEADY, workload=workload, setting=setting, group=group, round=number, warnings=found)
        for group, ((workload, setting), found) in enumerate(zip(places, warnings))
        for number in (0, 1)
    ]
    return shown(*runs)


def distorted() -> dict[str, list[SummaryRow]]:
    """Rows by what is said of their conditions."""
    load, note = warning("OTHER_LOAD"), warning("OUTLIERS")
    codes = ("OUTLIERS", "LATER", "OTHER_LOAD", "FP32_NOT_FP32")
    busy = [warning_for(WarningCode.OTHER_LOAD, cores=cores) for cores in (0.96, 0.171, 0.2, 0.12)]
    odd = warning_for(WarningCode.ODD_PROCESS, number=3, count=8, percent=108.0, direction="slower")
    far = [warning_for(WarningCode.OUTLIERS, count=count, total=20) for count in (9, 12)]
    waits = [warning_for(WarningCode.WAIT_POLICY, value=value) for value in ("ACTIVE", "PASSIVE")]
    unknown = [[WarningMessage(code, text, "a hint", {"x": 1.0}) for text in ("this", "that")] for code in codes[1:3]]
    runs = [make(STEADY, setting=Setting(threads=1 + n), warnings=(load,) * (n < 5)) for n in range(8)]
    return {
        "some rows": with_warnings((load, note), (load,), (load,), ()),
        "all rows": with_warnings(*[(load,)] * 4),
        "many settings": shown(*runs),
        "the most harmful comes first": with_warnings(*((warning(code, code),) for code in codes)),
        "the larger disturbance comes first": with_warnings(*[(busy[-1], odd)] * 4),
        "numbers become a range": with_warnings(*((each,) for each in busy[:3])),
        "numbers of two kinds": with_warnings(*((each,) for each in far)),
        "words are said once": with_warnings(*((each,) for each in waits)),
        "a code of a later version": with_warnings(*((each,) for each in unknown[0])),
        "values of another version": with_warnings(*((each,) for each in unknown[1])),
    }


def test_conditions_are_said_once_with_the_rows_that_they_concern(approved: Callable[[str, str], None]) -> None:
    """The most harmful first, by its severity, then by the share of the time that it may explain."""
    said = []
    for name, rows in distorted().items():
        found = [
            f"    {each.word}: {each.concerns or 'all'}: {each.message} → {each.hint}" for each in conditions(rows)
        ]
        said += [f"{name}:", *found]
    approved("said/conditions.txt", "".join(f"{each}\n" for each in said))

"""Images, as far as they can be checked without building them: bake file, Dockerfiles, build scripts, entry point."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from programs import program, ran, wheel

VERSIONS = ("2.10.0",)
BAKE = (ROOT / "docker-bake.hcl").read_text(encoding="utf-8")
ARM, X86 = ["linux/arm64"], ["linux/amd64"]


def promised() -> dict[str, list[str]]:
    """Return every documented tag with its platforms."""
    found = {"modelzoo": [*X86, *ARM]}
    for version in VERSIONS:
        for backend, platforms in (("acl", ARM), ("openblas", ARM), ("x86", X86)):
            found[f"torch{version}_{backend}"] = platforms
            found[f"torch{version}_{backend}_modelzoo"] = platforms
    return found


def bake(*targets: str, **variables: str) -> dict[str, Any]:
    """Return the targets of ``docker buildx bake --print``, which needs buildx but no engine."""
    if not shutil.which("docker") or subprocess.run(["docker", "buildx", "version"], capture_output=True).returncode:
        pytest.skip("docker buildx is not installed")
    command = ("docker", "buildx", "bake", "--file", "docker-bake.hcl", "--print", *targets)
    done = ran(*command, cwd=ROOT, **variables)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)["target"]
    return plan


def test_every_tag_is_in_the_bake_plan() -> None:
    """Exactly the documented ones, each with its platforms, and none as archival."""
    plan = bake("current", REGISTRY="host/team/zoo", TORCH_INDEX="")
    assert {target["tags"][0]: target["platforms"] for target in plan.values()} == {
        f"host/team/zoo:{tag}": platforms for tag, platforms in promised().items()
    }
    for name, target in plan.items():
        assert (ROOT / target["dockerfile"]).is_file()
        (tag,) = (tag.rpartition(":")[2] for tag in target["tags"])
        assert name == tag.replace(".", "_")
        assert target["args"].get("TAG", tag) == tag, "results name the image by its tag"
        assert target["labels"]["modelzoo-support"] == "current"


@pytest.mark.parametrize(
    ("backend", "variables", "argument", "value"),
    [
        ("acl", {"CA": "/etc/hostname"}, "PIP_CERT", "/run/secrets/ca.pem"),
        ("acl", {"CA": ""}, "PIP_CERT", ""),
        ("x86", {"TORCH_INDEX": ""}, "LOCK", "lock.txt"),
        ("acl", {"TORCH_INDEX": ""}, "LOCK", "lock-cpu.txt"),
        ("x86_modelzoo", {"ENGINES": "onnxruntime openvino"}, "ENGINES", "onnxruntime openvino"),
    ],
)
def test_variables_become_arguments_of_a_build(
    backend: str, variables: dict[str, str], argument: str, value: str
) -> None:
    """A certificate is a secret and a path, not a file; without PyTorch's index, x86-64 has the lock with CUDA."""
    target = bake(f"torch2_10_0_{backend}", **variables)[f"torch2_10_0_{backend}"]
    assert target["args"].get(argument, "") == value
    secret = str(target.get("secret") or "")
    assert variables["CA"] in secret if variables.get("CA") else not secret


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_an_engine_adds_its_own_packages_only(engine: str) -> None:
    """A second numpy before that of the environment would be imported instead of it."""
    files = [ROOT / "requirements" / f"lock-{name}.txt" for name in (engine, "cpu")]
    own, others = ({*re.findall("^(.*?)==", file.read_text(), re.MULTILINE)} for file in files)
    assert engine in own and not own & others
    assert f"requirements/lock-{engine}.txt" in (ROOT / "Dockerfile").read_text()


def test_bake_file_and_versions_agree() -> None:
    """The bake file has one line per torch, with the pins of versions.sh, which refuses others."""

    def sourced(version: str) -> subprocess.CompletedProcess[str]:
        script = '. pytorch_env/versions.sh && printf "%s\n" "$BASE_IMAGE" "$LOCK"'
        return ran("sh", "-euc", script, cwd=ROOT, TORCH=version)

    lines = re.findall(r'{ torch = "([^"]+)", base = "([^"]+)", lock = "([^"]+)"', BAKE)
    assert [line[0] for line in lines] == list(VERSIONS)
    assert all(sourced(version).stdout.split() == rest for version, *rest in lines)
    done = sourced("9.9")
    said = "versions.sh: error: there are no pins for torch 9.9; use 2.10.0\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_groups_name_every_target() -> None:
    """A target that no group lists would never be built."""
    named = set(re.findall(r'"((?:torch\d+_\d+_\d+_\w+|modelzoo))"', BAKE.partition('target "_common"')[0]))
    wanted = {tag.replace(".", "_") for tag in promised()}
    assert named == wanted - {f"torch{version.replace('.', '_')}_x86" for version in VERSIONS}


STAGE = re.compile(r"^FROM (?:--platform=\S+ )?(\S+) AS (\S+)\n(.*?)(?=^FROM|\Z)", re.MULTILINE | re.DOTALL)
ENVIRONMENTS = sorted((ROOT / "pytorch_env").glob("Dockerfile.*"))
DOCKERFILES = [ROOT / "Dockerfile", *ENVIRONMENTS]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_no_image_imports_what_a_container_has_left_in_the_home_directory(path: Path) -> None:
    """One ``.pth`` file there would be run by every later container with the same volume."""
    stages = {each: (base, body) for base, each, body in STAGE.findall(path.read_text(encoding="utf-8"))}
    last = {"code", "wheel", "source"} & set(stages)
    assert last
    for stage in last:
        lines = ""
        while stage in stages:
            stage, body = stages[stage]
            lines += body
        assert re.search(r"^ENV (.*\\\n)?.*\bPYTHONNOUSERSITE=1$", lines, re.MULTILINE)


BILL = ROOT / "pytorch_env" / "bill-of-materials"
DPKG = """#!/bin/sh
printf 'installed\\tlibstdc++6\\t12.2.0-14+deb12u1\\tamd64\\n'
printf 'config-files\\tgone\\t1.0\\tall\\n'
printf 'installed\\tlogin\\t1:4.13+dfsg1-1\\tamd64\\n'
"""


@pytest.mark.skipif(not Path("/etc/os-release").is_file(), reason="only Debian's images need it")
def test_the_bill_of_materials_lists_the_packages_of_python_and_debian(tmp_path: Path) -> None:
    """As CycloneDX has them: each once, by a package URL, and nothing of the moment."""
    program(tmp_path / "dpkg-query", DPKG)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    path = tmp_path / "new" / "image.cdx.json"
    texts = []
    for _ in range(2):
        subprocess.run([sys.executable, BILL, path], env=environment, capture_output=True, check=True)
        texts.append(path.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    bill = json.loads(texts[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    references = [each["bom-ref"] for each in bill["components"]]
    assert references == sorted(set(references))
    by_purl = {each["purl"]: each for each in bill["components"]}
    torch = by_purl[f"pkg:pypi/torch@{metadata.version('torch').replace('+', '%2B')}"]
    assert (torch["type"], torch["name"]) == ("library", "torch")
    assert Path(torch["properties"][0]["value"], "torch").is_dir()
    debian = [re.sub("&distro=.*", "", purl) for purl in by_purl if purl.startswith("pkg:deb/")]
    assert [purl.split("/", 2)[2] for purl in debian] == [
        "libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64",
        "login@1:4.13%2Bdfsg1-1?arch=amd64",
    ]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_every_image_has_a_bill_of_materials(path: Path) -> None:
    """Each stage that can be an image writes it after its last package."""
    written = "bill-of-materials /modelzoo/sbom/image.cdx.json"
    stages = re.split(r"^FROM ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    final = {stage.split("\n")[0].rpartition(" ")[2]: stage for stage in stages if written in stage}
    own = {"wheel"} if path.name.endswith("x86") else {"wheel", "source"}
    assert set(final) == ({"weights-${WEIGHTS}"} if path.name == "Dockerfile" else own)
    assert not any(re.search(r"apt-get|pip|COPY", stage.partition(written)[2]) for stage in final.values())


@pytest.mark.parametrize("path", [*ENVIRONMENTS, ROOT / "scripts/smoke-images"], ids=lambda path: path.name)
def test_mounted_modules_import_alone(path: Path, tmp_path: Path) -> None:
    """The canary runs during a build from the mounted files alone: no other module, no package but torch."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"source=(modelzoo/\S+),target=/build/(\S+) ", text)
    modules = found or re.findall(r"\$here/(modelzoo/\S+):/build/(\S+):ro", text)
    assert modules
    for source, place in modules:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, tmp_path / place)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from modelzoo.evidence.canary import run_canary
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
canary = Canary((OperatorCheck("conv", 2e-7, CanaryLevel.FP32),))
print(callable(run_canary), canary.verdict("fp32") == "fp32", canary.summary, canary.operators[0].level)
"""
    done = ran(sys.executable, "-I", "-S", "-B", "-c", code, tmp_path)
    assert done.stdout == "True True conv fp32 (2.0e-07) fp32\n", done.stderr


def pinned(*wheels: Path) -> str:
    """Return a lock of the wheels with their checksums, in uv's format."""
    lines: dict[str, list[str]] = {}
    for file in wheels:
        name, version = file.name.split("-")[:2]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.setdefault(f"{name}=={version.partition('+')[0]}", []).append(f"    --hash=sha256:{digest}")
    return "".join(f"{pin} \\\n" + " \\\n".join(hashes) + "\n" for pin, hashes in lines.items())


def unpack(tmp_path: Path, lock: str, architecture: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``unpack-wheels`` into ``tmp_path/site`` with the test's Python and no index but the test's own."""
    (tmp_path / "lock.txt").write_text(lock)
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    own = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "" if "TORCH_INDEX" in variables else "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = (ROOT / "pytorch_env/unpack-wheels", tmp_path / "lock.txt", architecture, tmp_path / "site")
    return ran(*command, environ=clean, **own, **variables)


@pytest.fixture
def python_tag() -> str:
    """Return the tag of the Python that runs the tests, such as ``cp311-cp311``; skip if it has no pip."""
    # Looking for the module instead (importlib.util.find_spec, pytest.importorskip) makes setuptools leave distutils
    # to Python for the rest of the process, where torch.compile, which imports setuptools, then fails.
    try:
        metadata.distribution("pip")
    except metadata.PackageNotFoundError:
        pytest.skip("this Python has no pip")
    return "cp{0}{1}-cp{0}{1}".format(*sys.version_info[:2])


def test_a_wheel_with_another_checksum_ends_the_build(tmp_path: Path, python_tag: str) -> None:
    """A wheel whose checksum is not in the lock is not unpacked."""
    lock = pinned(wheel(tmp_path / "wheels", "six", "1.0", "py3-none-any"))
    done = unpack(tmp_path, re.sub(r"(sha256:)\w{4}", r"\g<1>0000", lock), "arm64")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "site" / "six.py").exists()


def test_torch_of_the_other_architecture_comes_from_its_own_index(tmp_path: Path, python_tag: str) -> None:
    """TORCH_INDEX provides only torch and torchvision, in a local version; the rest is checked by its checksums."""
    folder, index = tmp_path / "wheels", tmp_path / "index"
    other, machine = ("arm64", "aarch64") if platform.machine() == "x86_64" else ("amd64", "x86_64")
    tags = [f"{python_tag}-manylinux_2_28_{each}" for each in ("aarch64", "x86_64")]
    versions = {"torch": "2.10.0", "torchvision": "0.25.0"}
    general = [wheel(folder, name, version, tag) for name, version in versions.items() for tag in tags]
    lock = pinned(*general, wheel(folder, "six", "1.0", "py3-none-any"))
    for name, version in versions.items():
        files = [wheel(index / name, name, f"{version}+cpu", tag) for tag in tags]
        (index / name / "index.html").write_text("".join(f'<a href="{file.name}">{file.name}</a>' for file in files))
    for file in general:
        file.unlink()
    done = unpack(tmp_path, lock, other, TORCH_INDEX=index.as_uri(), PIP_INDEX_URL=index.as_uri())
    assert done.returncode == 0, done.stderr
    for name, version in versions.items():
        seen = (tmp_path / "site" / f"{name}.py").read_text()
        assert f"{version}+cpu" in seen and machine in seen
    assert (tmp_path / "site" / "six.py").is_file()


@pytest.mark.parametrize(
    ("words", "options", "called"),
    [
        ([], "", "modelzoo <run>"),
        ([], "bert --processes 1", "modelzoo <run> <bert> <--processes> <1>"),
        (["run", "a b"], "bert", "modelzoo <run> <a b>"),
        (["--version"], "", "modelzoo <--version>"),
        (["no-such-command"], "", "modelzoo <no-such-command>"),
        (["python3", "performance.py", "--bf16"], "", "python3 <performance.py> <--bf16>"),
    ],
)
def test_entry_point_distinguishes_commands_and_programs(
    words: list[str], options: str, called: str, tmp_path: Path
) -> None:
    """Without an argument it runs the main job, with the options in the variable; modelzoo reports mistakes."""
    for name in ("modelzoo", "python3"):
        program(tmp_path / name, f'#!/bin/sh\nprintf "%s" "{name}"; printf " <%s>" "$@"\n')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "MODELZOO_RUN_OPTIONS": options}
    done = ran(ROOT / "scripts/container-entrypoint", *words, environ=environment)
    assert (done.returncode, done.stdout) == (0, called)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the build for x86 refuses other machines")
def test_this_torch_passes_the_check_of_the_x86_image() -> None:
    """It is the same wheel; a wrong architecture is known to go unnoticed, so it is looked at first."""
    for backend, code, said in (("x86", 0, "fp32 is fp32"), ("acl", 1, "FAILED: architecture")):
        done = ran(sys.executable, ROOT / "pytorch_env" / "assert-backend", backend, PYTHONPATH=str(ROOT))
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr

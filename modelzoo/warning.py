"""Every warning of the suite, as data: a code, how much it matters, a message, and a hint that says what to do.

Warnings never stop a run. They are stored in the result and shown with it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum

import msgspec

from modelzoo.frozen import Message, Public


class Severity(IntEnum):
    """What a condition does to a result, most harmful first.

    INVALIDATES: the number is not what its label says, for example bf16 that ran in fp32.
    DISTORTS: the number may be off, or less certain than its interval says.
    NOTE: nothing to worry about; shown among the details only.
    """

    INVALIDATES = 0
    DISTORTS = 1
    NOTE = 2


def _of(severity: Severity) -> Callable[[str, str], tuple[Severity, str, str]]:
    """What declares a code of this severity, by its message and its hint."""
    return lambda message, hint: (severity, message, hint)


_invalidates, _distorts, _note = map(_of, Severity)


class WarningCode(Enum):
    """Warning codes, most harmful first.

    Each value is (severity, message, hint); message and hint are templates for ``str.format``.
    """

    EMULATED = _invalidates(
        "this machine is emulated (qemu): times are not reported, only correctness, with one process per setting",
        "measure on real hardware",
    )
    FP32_NOT_FP32 = _invalidates(
        "the fp32 setting does not compute in fp32: {detail}",
        "check the environment and the PyTorch build for fast-math settings; speedups over this setting are "
        "meaningless",
    )
    OTHER_OUTPUTS = _invalidates(
        "{engine} does not compute what torch does in eager mode and fp32",
        "its times say nothing about this model; {advice}",
    )
    BF16_NOT_ACTIVE = _invalidates(
        "{precision} was requested by {method} but is NOT active: {detail}",
        "try --bf16=autocast or --bf16=cast, or a PyTorch build whose kernels support it",
    )
    PROOF_DIFFERS = _invalidates(
        "the processes of this setting did not all run in the same precision: {counts}",
        "repeat the run; if they differ again, compare the kernels of each process in the JSON result",
    )
    MISMATCHED_COUNTS = _invalidates(
        "{what}: {seen}, outside the range of trained models ({low} to {high}), so the time is not representative",
        "use pretrained weights, or another input",
    )
    OTHER_THREADS = _invalidates(
        "the number of threads was not what was asked for: {detail}",
        "remove torch.set_num_threads from the model, or whatever else starts threads, and ask for them with --threads",
    )
    OTHER_PRECISION = _invalidates(
        "the model or a library changed what decides the precision: {detail}",
        "remove that from the model, and ask for a precision with --precision and --bf16",
    )
    HUGE_PAGES_UNUSED = _invalidates(
        "huge pages were requested by thp=on, but none were in use after the last sample",
        "only blocks of 2 MiB or more can be in huge pages; with malloc=tcmalloc, only torch requests them for its "
        "large tensors",
    )
    MISSING_WEIGHTS = _distorts(
        "there are no trained weights ({reason}), so these are random: the speed is that of this network, but its "
        "predictions are meaningless",
        "if predictions matter, name trained weights: --weights PATH, or MODELZOO_WEIGHTS (docs/weights.md)",
    )
    OTHER_SWITCHES = _distorts(
        "the model or a library changed switches that select kernels: {detail}",
        "remove that from the model; flush-to-zero comes from libraries that were built with -ffast-math",
    )
    BF16_PARTLY = _distorts(
        "{precision} by {method} is only partly active in the products of the canary: {detail}",
        "--details shows in what the network's own products ran; compare --bf16=fastmath, autocast and cast",
    )
    NOT_REPEATABLE = _distorts(
        "the model does not compute the same in every pass: {detail}",
        "leave train() out of forward, and give functions such as dropout training=self.training; 'modelzoo validate' "
        "cannot judge it",
    )
    REFERENCE_KERNELS = _distorts(
        "slow reference kernels took {percent:.1f} % of the time: {names}",
        "no optimized kernel supports these operands; compare --bf16=fastmath, autocast and cast, or the recipes of "
        "int8, or use another PyTorch build",
    )
    NO_BF16_HARDWARE = _distorts(
        "this CPU has no bf16 instructions ({features})",
        "bf16 is emulated here, and usually slower than fp32; measure it on a CPU with bf16, avx512_bf16 or amx_bf16",
    )
    OLD_ACL = _distorts(
        "Arm Compute Library {version} has no inner product in bf16, which compiled Linear layers call: oneDNN may "
        "compute them in reference kernels, about 100 times as slow",
        "use torch 2.14.1 or newer (Compute Library 53.1 or newer), or --mode eager",
    )
    INT8_SATURATION = _distorts(
        "this CPU has no VNNI, so its int8 kernels may saturate sums of two 8-bit products: {recipe} may predict worse "
        "here than on other machines",
        "judge the predictions on this machine (modelzoo validate), or use recipe=dynamic-x86, whose activations have "
        "7 bits",
    )
    SLOW_BF16 = _distorts(
        "matrix products are slower in bf16 than in fp32 on this machine (bf16 relative to fp32: {operators})",
        "a speedup in bf16 can only come from memory traffic; a PyTorch build whose library has bf16 kernels for this "
        "CPU may be faster",
    )
    SLOW_LINEAR = _distorts(
        "fp32 Linear layers use torch.mm's BLAS, which runs at {ratio:.2f}× oneDNN's speed on this machine: part of "
        "the speedup of bf16 over fp32 may come from that",
        "compare with --linear onednn, which packs the weights of fp32 Linear layers for oneDNN",
    )
    FORCED_KERNELS = _distorts(
        "{names} may select other kernels than those for this CPU",
        "unset it; a value meant for another CPU may select the library's slowest kernels, without a message",
    )
    TWO_OPENMP = _distorts(
        "{count} OpenMP runtimes are loaded in one process ({names}): their threads compete for the cores",
        "use only one: install numpy, torch and scikit-learn from the same source, or unset LD_PRELOAD if it names one",
    )
    OVERSUBSCRIBED = _distorts("{threads} threads share {cores} usable cores", "use --threads {cores} or fewer")
    OPENBLAS_EXCEEDED = _distorts(
        "{threads} threads, but torch's OpenBLAS was built for {limit}: with more it may crash or leak memory",
        "use --threads {limit} or fewer, or a PyTorch build with a larger NUM_THREADS",
    )
    OPENBLAS_LIMIT = _distorts(
        "torch's OpenBLAS was built for {limit} threads, so the default is {limit} and not all {cores} cores",
        "use a PyTorch build with a larger NUM_THREADS, or several instances: modelzoo throughput",
    )
    THREADS_VARIABLE = _distorts(
        "{name}={value}, but this process may use only {cores} cores",
        "unset {name}, or set it to {cores}: if threads share a core, all the others wait for them",
    )
    THROTTLED = _distorts(
        "the control group's quota throttled the threads for {seconds:.2f} s in {total:.1f} s",
        "raise the quota, or use --threads {threads}",
    )
    OTHER_LOAD = _distorts(
        "other programs used {cores:.2f} cores during the run",
        "stop them (top shows which): OpenMP threads wait for the slowest one, so even a small load slows all down",
    )
    STOLEN_TIME = _distorts(
        "the hypervisor gave {percent:.1f} % of the CPU time to other guests during the run",
        "use a dedicated host, or measure at a quieter time",
    )
    ONE_PROCESS = _distorts(
        "only one process: the variation between processes is unknown",
        "use --processes 3 or more; on the same machine, processes often differ by more than samples do",
    )
    FEW_SAMPLES = _distorts("only {count} steady-state samples per process", "raise --iterations, or omit it")
    ODD_PROCESS = _distorts(
        "process {number} of {count} was {percent:.0f} % {direction} than the others, more than chance explains",
        "it counts like the others; repeat the run if something else may have disturbed it",
    )
    STALLED_PROCESS = _distorts(
        "process {number} of {count} took {factor:.1f} times as long as the others, more than chance explains",
        "it counts like the others; repeat the run if something else may have disturbed it",
    )
    PROCESSES_DIFFER = _distorts(
        "the medians of the processes differ by {percent:.0f} %",
        "use more --processes, or check for other load, frequency changes and memory placement",
    )
    PROCESSES_DISAGREE = _distorts(
        "the slowest process took {factor:,.1f} times as long as the fastest one: too noisy to compare",
        "check for other load, frequency changes and memory placement, then repeat the run",
    )
    WARMUP_CAP = _distorts(
        "timings had not stabilized when the warm-up reached its limit of {seconds:.0f} s ({count} calls)",
        "check what else runs on this machine, or set the number of warm-up calls with --warmup",
    )
    DEVICE_THROTTLED = _distorts(
        "the clock of {device} was held down ({reasons}) during {share:.0f} % of the samples",
        "improve its cooling, raise its power limit, or use --lock-clocks with a frequency that it can hold",
    )
    PAGE_FAULTS = _distorts(
        "malloc returns freed blocks to the kernel, so large tensors cause page faults again and again ({faults:,.0f} "
        "page faults {when})",
        "set MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 (Mask R-CNN "
        "gains most), or LD_PRELOAD=libtcmalloc_minimal.so.4",
    )
    NUMA = _distorts("threads and memory may be spread over {nodes} NUMA nodes", "bind them to one node: {command}")
    SMT = _distorts(
        "{threads} hardware threads share each core: a busy sibling takes up to half of the core's speed",
        "keep the siblings idle: {command}; or disable SMT in the firmware",
    )
    CPU_QUOTA = _distorts(
        "the control group allows {quota:g} of {cpus} CPUs: if the threads use more, all of them are throttled",
        "assign whole CPUs instead of a quota: docker run --cpuset-cpus 0-{last}",
    )
    GOVERNOR = _distorts(
        "the frequency governor is {governor}: the clock follows the load, so early iterations are slower",
        "sudo cpupower frequency-set -g performance",
    )
    HUGE_PAGES = _distorts(
        "transparent huge pages are off: large tensors cause 512 times as many page faults, and more TLB misses",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled, then set THP_MEM_ALLOC_ENABLE=1",
    )
    POOR_SCALING = _distorts(
        "{threads} threads reach only {percent:.0f} % of {threads} times the fp32 speed of one thread",
        "check for other load, SMT siblings, a quota, threads bound to one core (GOMP_CPU_AFFINITY, OMP_PLACES) "
        "or power limits; compare with --threads {half}",
    )
    WAIT_POLICY = _distorts(
        "OMP_WAIT_POLICY={value} changes the speed of short operators",
        "unset it to compare with other results; PASSIVE helps only if cores are shared",
    )
    FAST_MATH = _distorts(
        "fp32 operators may compute with less precision because of {names}",
        "unset it; the suite removes it for its own fp32 runs, but other programs are affected",
    )
    MISMATCHED_PAIR = _distorts("{problem}", "install torch and torchvision of the same release, from the same index")
    SMALL_MEMORY = _distorts(
        "only {gib:.1f} GiB of memory are available; the four workloads need up to {needed:g} GiB",
        "raise the container's memory limit, or run fewer workloads or a smaller --batch",
    )
    CONVERTED_WEIGHTS = _distorts(
        "the model's weights were not all in fp32 ({types}), and were converted to it",
        "load it in fp32 (transformers: dtype=torch.float32) if there are weights that were never rounded; what it "
        "computes in is chosen by --precision",
    )
    SUBNORMALS = _distorts(
        "{percent:.2g} % of the weights and activations that products read are subnormal numbers, with which many CPUs "
        "compute a hundred times slower",
        "set them to zero in the checkpoint, or take them for zero where the model is served: "
        "torch.set_flush_denormal(True)",
    )
    CHANGED_INPUTS = _distorts(
        "the model changes its inputs in place, so they were restored before each call, outside of the timing",
        "let forward work on a copy: whoever calls it again with the same tensors gets other outputs",
    )
    RANDOM_WEIGHTS = _distorts(
        "random weights, as was asked for: the speed is that of this network, but its predictions are meaningless",
        "if predictions matter, use trained weights: --weights auto, or --weights PATH (docs/weights.md)",
    )
    SCRUBBED_VARIABLES = _note(
        "fast-math variables were set but not requested, so the worker ran without them: {names}",
        "add --bf16 to measure with fast math, or unset them",
    )
    BACKEND_VARIABLE = _note(
        "MODELZOO_BACKEND selects the backend {value}: {meaning}", "use --backend auto to leave the choice to PyTorch"
    )
    RENAMED_WEIGHTS = _note(
        "{detail}, which was removed to load them",
        "save the state dict of the model itself: that of model.module, or of model._orig_mod",
    )
    OUTLIERS = _note(
        "{count} of {total} samples are outliers (above 1.5 × the median); none was dropped",
        "check for other load on the machine",
    )


CONTRADICTING = (WarningCode.OTHER_THREADS.name, WarningCode.OTHER_PRECISION.name)
"""Codes of warnings by which a setting did not run as its label says, whatever its kernels prove."""

Value = int | float | Message


class WarningMessage(msgspec.Struct, frozen=True):
    """One warning of one run.

    Attributes:
        code: name of a ``WarningCode``.
        message: what may distort the result.
        hint: how to fix it.
        values: what fills in the templates of message and hint, by name. Those of several warnings can be merged.
    """

    code: Public
    message: Message
    hint: Message
    values: dict[str, Value]


def warning_for(code: WarningCode, **values: Value) -> WarningMessage:
    """Create the warning of ``code``; ``values`` fill in the templates of its message and hint."""
    _, message, hint = code.value
    return WarningMessage(code.name, message.format(**values), hint.format(**values), values)


def rank(code: str) -> tuple[Severity, int]:
    """Sort key of a warning's code: its severity, then its place among ``WarningCode``.

    A code that this version does not know, from the result of a later one, comes last of those that distort.
    """
    codes = list(WarningCode)
    known = WarningCode.__members__.get(code)
    return (Severity.DISTORTS, len(codes)) if known is None else (known.value[0], codes.index(known))

"""A short identifier of what decides a machine's speed."""

from __future__ import annotations

import hashlib
import json

from modelzoo.records.machine import Machine


def fingerprint(machine: Machine) -> str:
    """Return 16 hexadecimal digits that depend on everything that decides the machine's ceilings.

    The current frequency, the environment and the kernel are not included. Nor are torch's version and the number of
    threads: callers that store figures by fingerprint add them.
    """
    decisive = {
        "cpu": machine.cpu,
        "product": machine.product,
        "features": machine.features,
        "sve_bits": machine.sve_bits,
        "cores": machine.cores,
        "logical": machine.logical,
        "sockets": machine.sockets,
        "caches": [[cache.name, cache.bytes, cache.instances] for cache in machine.caches],
        "affinity": machine.threads.affinity,
        "quota": machine.threads.quota,
        # In GiB: kernels reserve slightly different amounts at each boot.
        "memory": None if machine.memory_limit is None else round(machine.memory_limit / 2**30),
        "governor": machine.governor,
        "max_mhz": machine.max_mhz,
        "emulator": machine.emulator,
    }
    text = json.dumps(decisive, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

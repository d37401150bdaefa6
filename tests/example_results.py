"""A stored result of every command that measures."""

from __future__ import annotations

from load_results import load, measured
from load_results import result as load_result
from places import DATA
from shown_documents import search, several_workloads, staged, throughput_of

from modelzoo.results import store

EXAMPLES = {
    **{path.stem: store.read(path) for path in sorted((DATA / "results").glob("[!e]*.json"))},
    "several": several_workloads(),
    "staged": staged(),
    "tune": search(),
    "throughput": throughput_of(),
    "load": load_result(measured(load(queries=662))),
}

"""The model hubs on a port of this machine: files as torchvision serves them, and repositories as Hugging Face does."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "c0" * 20
"""The revision that the hub calls ``main``."""


class FakeHub:
    """What it serves, and what it was asked for."""

    def __init__(self) -> None:
        self.address = ""
        self.files: dict[str, bytes] = {}
        self.repositories: dict[tuple[str, str], dict[str, bytes]] = {}
        self.requested: list[str] = []

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        self.requested.append(path)
        if path in self.files:
            return 200, {}, self.files[path]
        for (repository, commit), files in self.repositories.items():
            api = f"/api/models/{repository}"
            for revision in {commit, "main"} if commit == COMMIT else {commit}:
                if path == f"{api}/revision/{revision}" or (path == api and revision == "main"):
                    siblings = [{"rfilename": name} for name in files]
                    return 200, {}, json.dumps({"id": repository, "sha": commit, "siblings": siblings}).encode()
                if path == f"{api}/tree/{revision}":
                    tree = [{"type": "file", "path": name, "size": len(files[name]), "oid": name} for name in files]
                    return 200, {}, json.dumps(tree).encode()
                name = path.removeprefix(f"/{repository}/resolve/{revision}/")
                if name in files:
                    etag = hashlib.sha256(files[name]).hexdigest()
                    return 200, {"X-Repo-Commit": commit, "ETag": f'"{etag}"'}, files[name]
        return 404, {}, b""


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[FakeHub]:
    """Serve a hub, and let Hugging Face's client know no other. Its cache is ``cache``."""
    from huggingface_hub.file_download import try_to_load_from_cache

    hub = FakeHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, content = hub.answer(unquote(urlsplit(self.path).path))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            pass

    for name in ("MODELZOO_OFFLINE", "HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        for name, value in (
            ("ENDPOINT", hub.address),
            ("HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"),
            ("HF_HUB_OFFLINE", False),
            ("HF_HUB_CACHE", str(cache)),
        ):
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", try_to_load_from_cache)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()

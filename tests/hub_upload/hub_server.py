"""A small hub in memory: the calls that `huggingface_hub` and `datasets` make to publish and to load a dataset.

Written after the paths and answers that `huggingface_hub` 1.x and 2.x read (``hf_api.py``, ``_commit_api.py``, ``lfs.py``).
Parquet files go by git LFS, as on the hub; its faster storage (xet) is turned off by ``HF_HUB_DISABLE_XET``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "s3cretT0ken" * 3
READ_ONLY = "hf_" + "readOnly" * 4


def sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass
class Repo:
    """A repository: its commits, the latest last, and its tags."""

    private: bool
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def add(self, files: dict[str, bytes], message: str = "") -> str:
        state = [[path, sha1(data)] for path, data in sorted(files.items())]
        oid = hashlib.sha1(json.dumps([len(self.commits), state]).encode()).hexdigest()
        self.commits.append((oid, files))
        self.messages.append(message)
        return oid

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        oid = self.commits[-1][0] if revision == "main" else self.tags.get(revision, revision)
        return next((commit for commit in self.commits if commit[0] == oid), None)


@dataclass
class Fault:
    """What happens to requests instead of an answer.

    Attributes:
        method: of the request.
        path: pattern that its path holds.
        act: is called with the handler; answers, or lets the connection drop.
        skip: how many such requests pass before.
    """

    method: str
    path: str
    act: Callable[[Handler], object]
    skip: int = 0


class Hub(ThreadingHTTPServer):
    """The server; `repos` is its whole state, beside the uploaded LFS objects."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.lock = threading.Lock()
        self.released = threading.Event()  # lets hanging answers go

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def state(self) -> dict[str, Any]:
        """Return what users can see: commits and tags of every repository."""
        return {
            name: ([oid for oid, _ in repo.commits], dict(repo.commits[-1][1]), dict(repo.tags))
            for name, repo in self.repos.items()
        }

    def writes(self) -> list[str]:
        """Return the paths of requests that change something or send data."""
        return [path for method, path in self.requests if method in ("POST", "PUT", "DELETE")]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    # ------------------------------------------------------------ answers

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def missing(self, what: str = "RepoNotFound") -> None:
        self.answer(404, {"error": "not found"}, X_Error_Code=what)

    def drop(self) -> None:
        self.close_connection = True
        self.connection.close()

    # ------------------------------------------------------------ requests

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
        self.body = self.chunks() if chunked else self.rfile.read(length)
        self.route_path = unquote(urlsplit(self.path).path)
        self.server.requests.append((self.command, self.route_path))
        for fault in self.server.faults:
            if fault.method == self.command and re.search(fault.path, self.route_path):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.act(self)
                return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", TOKEN, READ_ONLY):
            message = "Invalid credentials in Authorization header"
            self.answer(401, {"error": message}, X_Error_Message=message)
            return
        self.may_read, self.may_write = token != "", token == TOKEN
        for method, pattern, act in ROUTES:
            match = re.fullmatch(pattern, self.route_path)
            if method == self.command and match:
                with self.server.lock:
                    act(self, **match.groupdict())
                return
        self.missing("EntryNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def json(self) -> Any:
        return json.loads(self.body)

    def find(self, repo: str) -> Repo | None:
        found = self.server.repos.get(repo)
        if found is None or (found.private and not self.may_read):
            self.missing()
            return None
        return found

    def refuse_writing(self) -> bool:
        if not self.may_write:
            message = "You don't have the required permissions to perform this action"
            self.answer(403 if self.may_read else 401, {"error": message}, X_Error_Message=message)
        return not self.may_write

    # ------------------------------------------------------------ reading

    def entry(self, path: str, data: bytes) -> dict[str, Any]:
        large = path.endswith(".parquet")
        sha256 = hashlib.sha256(data).hexdigest()
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (sha256.encode(), len(data))
        found = {"size": len(data), "oid": sha1(pointer if large else data)}
        lfs = {"oid": sha256, "sha256": sha256, "size": len(data), "pointerSize": len(pointer)}
        return {**found, "lfs": lfs} if large else found

    def info(self, repo: str, revision: str = "main") -> None:
        found = self.find(repo)
        if found is None:
            return
        commit = found.at(revision)
        if commit is None:
            self.missing("RevisionNotFound")
            return
        oid, files = commit
        siblings = []
        for path, data in sorted(files.items()):
            entry = self.entry(path, data)
            siblings.append({"rfilename": path, "blobId": entry.pop("oid"), **entry})
        self.answer(
            200, {"_id": "0", "id": repo, "sha": oid, "private": found.private, "siblings": siblings, "tags": []}
        )

    def refs(self, repo: str) -> None:
        found = self.find(repo)
        if found is not None:
            tags = [{"name": t, "ref": f"refs/tags/{t}", "targetCommit": oid} for t, oid in found.tags.items()]
            head = {"name": "main", "ref": "refs/heads/main", "targetCommit": found.commits[-1][0]}
            self.answer(200, {"branches": [head], "tags": tags, "converts": []})

    def tree(self, repo: str, revision: str, folder: str | None = None) -> None:
        found = self.find(repo)
        commit = found.at(revision) if found else None
        if commit is None:
            return None if found is None else self.missing("RevisionNotFound")
        start = f"{folder.strip('/')}/" if folder else ""
        below = {path: data for path, data in commit[1].items() if path.startswith(start)}
        if start and not below:
            return self.missing("EntryNotFound")
        deep = "recursive=true" in self.path.lower() or "recursive=1" in self.path
        folders = {start + path[len(start) :].split("/")[0] for path in below if "/" in path[len(start) :]}
        rows = [{"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in sorted(folders)]
        files = [path for path in sorted(below) if deep or "/" not in path[len(start) :]]
        return self.answer(200, rows + [{"type": "file", "path": p, **self.entry(p, below[p])} for p in files])

    def resolve(self, repo: str, revision: str, path: str) -> None:
        found = self.find(repo)
        commit = found.at(revision) if found else None
        if found is None:
            return
        if commit is None or path not in commit[1]:
            self.missing("EntryNotFound" if commit else "RevisionNotFound")
            return
        data = commit[1][path]
        etag = hashlib.sha256(data).hexdigest() if path.endswith(".parquet") else sha1(data)
        self.answer(200, data, ETag=f'"{etag}"', X_Repo_Commit=commit[0])

    # ------------------------------------------------------------ writing

    def create(self) -> None:
        if self.refuse_writing():
            return
        asked = self.json()
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.server.repos:
            self.answer(409, {"error": "You already created this dataset repo"})
            return
        repo = Repo(private=asked.get("visibility") == "private" or bool(asked.get("private")))
        repo.add({".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}, "initial commit")
        self.server.repos[name] = repo
        self.answer(200, {"url": f"{self.server.url}/datasets/{name}", "name": name})

    def validate(self) -> None:
        self.answer(200, {"errors": [], "warnings": []})

    def preupload(self, repo: str, revision: str) -> None:
        if self.refuse_writing() or self.find(repo) is None:
            return
        files = [
            {
                "path": f["path"],
                "uploadMode": "lfs" if f["path"].endswith(".parquet") else "regular",
                "shouldIgnore": False,
            }
            for f in self.json()["files"]
        ]
        self.answer(200, {"files": files})

    def batch(self, repo: str) -> None:
        if self.refuse_writing():
            return
        objects = []
        for item in self.json()["objects"]:
            known = item["oid"] in self.server.objects
            upload = {"actions": {"upload": {"href": f"{self.server.url}/lfs/{item['oid']}", "header": {}}}}
            objects.append({"oid": item["oid"], "size": item["size"], **({} if known else upload)})
        self.answer(200, {"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self.answer(400, {"error": "another content"})
            return
        self.server.objects[oid] = self.body
        self.answer(200)

    def commit(self, repo: str, revision: str) -> None:
        found = None if self.refuse_writing() else self.find(repo)
        if found is None:
            return
        lines = [json.loads(line) for line in self.body.splitlines() if line]
        header = next(line["value"] for line in lines if line["key"] == "header")
        if header.get("parentCommit", found.commits[-1][0]) != found.commits[-1][0]:
            self.answer(412, {"error": "A commit has happened since. Please refresh and try again."})
            return
        files = dict(found.commits[-1][1])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        oid = found.add(files, header["summary"])
        self.answer(200, {"commitUrl": f"{self.server.url}/datasets/{repo}/commit/{oid}", "commitOid": oid})

    def tag(self, repo: str, revision: str) -> None:
        found = None if self.refuse_writing() else self.find(repo)
        if found is None:
            return
        name, commit = self.json()["tag"], found.at(revision)
        if name in found.tags or commit is None:
            self.answer(409 if commit else 404, {"error": "exists" if commit else "no such revision"})
            return
        found.tags[name] = commit[0]
        self.answer(200)


_API = r"/api/datasets/(?P<repo>[^/]+/[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    ("GET", _API, Handler.info),
    ("GET", _API + r"/revision/(?P<revision>[^/]+)", Handler.info),
    ("GET", _API + "/refs", Handler.refs),
    ("GET", _API + r"/tree/(?P<revision>[^/]+)(?P<folder>/.*)?", Handler.tree),
    ("GET", r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)", Handler.resolve),
    ("HEAD", r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)", Handler.resolve),
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate),
    ("POST", _API + r"/preupload/(?P<revision>[^/]+)", Handler.preupload),
    ("POST", r"/datasets/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", Handler.put),
    ("POST", _API + r"/commit/(?P<revision>[^/]+)", Handler.commit),
    ("POST", _API + r"/tag/(?P<revision>[^/]+)", Handler.tag),
]


@contextmanager
def running() -> Iterator[Hub]:
    """Yield a hub on a free port of this machine."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        hub.shutdown()
        hub.server_close()
        thread.join(5)

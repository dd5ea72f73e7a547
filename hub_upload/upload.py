"""Upload a plan: one commit and one tag, or nothing. Whatever fails, the user gets one line."""

from __future__ import annotations

import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub_upload.plan import UploadPlan
from nnd_tasks.card import read_card
from nnd_tasks.datasets import CARD
from nnd_tasks.errors import NNDError
from nnd_tasks.files import MAX_CONFIG_BYTES
from nnd_tasks.wording import some_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_KIND = "dataset"
_SHOWN = 10  # files that a refusal names
_LOGIN = "run `hf auth login`, or set HF_TOKEN"
#: Files of earlier versions of a published set, which may be removed; all others in the repository are left.
_OURS = re.compile(r"[\w.-]+/test-\d+-of-\d+\.parquet|recipe\.(json|yaml)|build_report\.json")
#: Files that the hub puts into a new repository.
_EMPTY = frozenset({".gitattributes"})
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What `upload` did.

    Attributes:
        url: of the repository.
        uploaded: paths that are new or changed.
        removed: paths of an earlier version that are gone.
        created: whether the repository is new.
        tagged: whether the tag of this version is new.
    """

    url: str
    uploaded: tuple[str, ...]
    removed: tuple[str, ...]
    created: bool
    tagged: bool

    @property
    def changed(self) -> bool:
        """Whether anything in the repository is new, changed or gone."""
        return bool(self.uploaded or self.removed or self.created or self.tagged)


@dataclass(frozen=True, slots=True)
class _Remote:
    """What a repository holds: the commit, path -> hashes of its content (git's and SHA-256), its tags, the card's size."""

    head: str
    private: bool
    files: dict[str, frozenset[str]]
    tags: frozenset[str]
    card_bytes: int


class _LimitedError(Exception):
    """The hub asks to wait."""

    def __init__(self, wait: str) -> None:
        super().__init__(wait)
        self.wait = wait


def check_repo(repo: str) -> None:
    """Check that a repository can have a name.

    Raises:
        NNDError: it has no namespace, or letters that the hub does not allow.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError:
        valid = False
    else:
        valid = _REPO.fullmatch(repo) is not None
    if not valid:
        raise NNDError(f"--repo {repo}: expected NAMESPACE/NAME, such as nnd/quiz_design")


def upload(
    plan: UploadPlan,
    *,
    private: bool = False,
    replace: bool = False,
    timeout: float = 30.0,
    tell: Callable[[str], object] = lambda line: None,
) -> UploadResult:
    """Make a repository of the hub hold the files of a plan; those that it has already are not uploaded again.

    A repository that holds anything else than an earlier version of the set is left alone.

    The files become visible with one commit on top of the state that was compared, so an interrupted or refused upload
    leaves the repository as it was. The hub is that of ``HF_ENDPOINT``; the token is the one of `huggingface_hub`
    (``HF_TOKEN``, or that of `hf auth login`), and is neither printed nor stored.

    Args:
        plan: from `hub_upload.plan.make_plan`.
        private: make a new repository private.
        replace: write even into a repository that holds something else.
        timeout: seconds to wait for an answer.
        tell: is called with a line for each of the changes to a repository of something else, before they are made.

    Raises:
        NNDError: no token, the repository holds something else, or the hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    token = find_token()
    with _quiet_client(timeout):
        api = HfApi(token=token, library_name="nnd-tasks")
        before = "nothing was changed"
        with _one_line(plan.repo, token, before):
            remote = _remote(api, plan.repo, timeout)
            if remote is not None and private and not remote.private:
                raise NNDError(
                    f"{plan.repo} is public already; leave out --private, or change its settings on the hub first"
                )
            foreign = "" if remote is None else _foreign(api, plan, remote, timeout)
        created = remote is None
        if remote is None:
            with _one_line(plan.repo, token, before):
                api.create_repo(plan.repo, repo_type=_KIND, private=private)
                before = "the new repository is empty"
                remote = _remote(api, plan.repo, timeout)
            if remote is None:
                raise NNDError(f"{plan.repo}: the hub does not show the repository that it made; try again")
        new = [file for file in plan.files if not {file.sha256, file.blob} & remote.files.get(file.path, frozenset())]
        kept = {file.path for file in plan.files}
        old = sorted(path for path in remote.files if path not in kept and _OURS.fullmatch(path))
        head = remote.head
        if foreign:
            replaced = [file.path for file in new if file.path in remote.files]
            _show_changes(plan.repo, foreign, replaced, old, None if not replace else tell)
        if new or old:
            with _one_line(plan.repo, token, before, lambda: _after(api, plan.repo, timeout, head, before)):
                head = _commit(api, plan, remote.head, [(file.path, file.data) for file in new], old)
        tagged = plan.version not in remote.tags
        if tagged:
            done = f"the files are up to date, without the tag {plan.version}: publish again to set it"
            with _one_line(plan.repo, token, done):
                api.create_tag(plan.repo, repo_type=_KIND, tag=plan.version, revision=head)
        url = f"{api.endpoint}/datasets/{plan.repo}"
    return UploadResult(url, tuple(file.path for file in new), tuple(old), created, tagged)


def find_token() -> str:
    """Return the token that `huggingface_hub` finds.

    Raises:
        NNDError: there is none, it cannot be one, or ``HF_HUB_OFFLINE`` is set.
    """
    from huggingface_hub import constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise NNDError("HF_HUB_OFFLINE is set, so nothing can be published; unset it, or look with --dry-run")
    token = get_token()
    if not token:
        raise NNDError(f"no token of the hub: {_LOGIN} (with write access)")
    if not re.fullmatch(r"[!-~]+", token):
        raise NNDError(f"the token of the hub holds white space or letters that no token has; {_LOGIN} again")
    return token


def _remote(api: HfApi, repo: str, timeout: float) -> _Remote | None:
    """Return what a repository holds, or None where there is none."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        info = api.dataset_info(repo, files_metadata=True, timeout=timeout)  # its None would overrule the client's
    except RepositoryNotFoundError as error:
        if error.response.status_code == 404:
            return None
        raise
    files: dict[str, frozenset[str]] = {}
    for entry in info.siblings or []:
        hashes = {entry.blob_id, entry.lfs.sha256 if entry.lfs else None}
        files[entry.rfilename] = frozenset(item for item in hashes if item)
    tags = frozenset(tag.name for tag in api.list_repo_refs(repo, repo_type=_KIND).tags)
    card_bytes = next((entry.size or 0 for entry in info.siblings or [] if entry.rfilename == CARD), 0)
    return _Remote(str(info.sha), bool(info.private), files, tags, card_bytes)


def _foreign(api: HfApi, plan: UploadPlan, remote: _Remote, timeout: float) -> str:
    """Return why a repository is not that of the set; ``""`` where it is, or is empty."""
    if CARD not in remote.files:
        return "it has files and no card" if remote.files.keys() - _EMPTY else ""
    if remote.card_bytes > MAX_CONFIG_BYTES:
        return "its card is too large to be one of ours"
    with tempfile.TemporaryDirectory(prefix="nnd-publish-") as folder:
        api.hf_hub_download(
            plan.repo, CARD, repo_type=_KIND, revision=remote.head, local_dir=folder, etag_timeout=timeout
        )
        try:
            name = read_card(Path(folder)).header.get("nnd_set")
        except NNDError as error:
            return "its card names no nnd_set" if "no YAML header" in str(error) else "its card cannot be read"
    if name is None:
        return "its card names no nnd_set"
    return "" if name == plan.name else f"it holds the set {name}"


def _show_changes(
    repo: str, why: str, replaced: list[str], deleted: list[str], tell: Callable[[str], object] | None
) -> None:
    """Tell what will be replaced or deleted in a repository that holds something else; without ``tell``, refuse.

    Raises:
        NNDError: ``tell`` is None.
    """
    if tell is None:
        parts = [
            f"{verb} {some_of(files, _SHOWN, str)}"
            for verb, files in (("replace", replaced), ("delete", deleted))
            if files
        ]
        would = f"publishing would {' and '.join(parts) or 'add files to it'}"
        raise NNDError(
            f"{repo}: {why}, so it is left alone; {would}; name another repository with --repo, or add --replace"
        )
    tell(f"note: {repo}: {why}")
    for verb, files in (("replaces", replaced), ("deletes", deleted)):
        if files:
            tell(f"note: {verb} {', '.join(files)}")


def _commit(api: HfApi, plan: UploadPlan, head: str, new: list[tuple[str, bytes]], old: list[str]) -> str:
    """Commit on top of ``head`` and return the commit; the hub refuses it where somebody else has committed since."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations: list[Any] = [CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in new]
    operations += [CommitOperationDelete(path_in_repo=path) for path in old]
    done = api.create_commit(
        plan.repo, operations, repo_type=_KIND, commit_message=f"{plan.name} {plan.version}", parent_commit=head
    )
    return str(done.oid)


# ---------------------------------------------------------------- the client


@contextmanager
def _quiet_client(timeout: float) -> Iterator[None]:
    """Give `huggingface_hub` a client that stops waiting, and keep its retries and progress from the terminal.

    The library waits as long as ``Retry-After`` says, up to five times, and without limit for an answer.
    """
    from huggingface_hub import close_session, set_client_factory
    from huggingface_hub.utils._http import default_client_factory
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    def make() -> Any:
        client = default_client_factory()
        client.timeout = timeout
        client.event_hooks["response"].append(_stop_when_limited)
        return client

    log = logging.getLogger("huggingface_hub")
    level, bars = log.level, not are_progress_bars_disabled()
    set_client_factory(make)
    log.setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        if bars:
            enable_progress_bars()
        set_client_factory(default_client_factory)
        close_session()


def _stop_when_limited(response: Any) -> None:
    if response.status_code == 429:
        wait = str(response.headers.get("retry-after", "")).strip()
        raise _LimitedError(f"in {wait} seconds" if wait.isdigit() else "later")


@contextmanager
def _one_line(repo: str, token: str, state: str, unsure: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn everything that the hub and the network raise into one line that says how the repository was left.

    Args:
        repo: of the hub.
        token: is kept out of the line.
        state: of the repository after a refusal.
        unsure: returns the state of the repository after other failures, such as a connection that broke before the
            answer; None: as after a refusal.
    """
    try:
        yield
    except NNDError:
        raise
    except (Exception, KeyboardInterrupt) as error:  # many kinds, of several libraries; the user's way out is one
        text, refused = _explain(repo, error)
        left = state if refused or unsure is None else unsure()
        # An error's text comes from outside: it may quote the request. The chain is cut, because a traceback shows it too.
        raise NNDError(f"{repo}: {text}; {left}".replace(token, "***")) from None


def _after(api: HfApi, repo: str, timeout: float, head: str, before: str) -> str:
    """Return how a repository was left by a commit that the hub did not answer."""
    try:
        remote = _remote(api, repo, timeout)
    except Exception:  # the hub can still not be reached
        remote = None
    return before if remote and remote.head == head else "whether the commit arrived is not known: publish again"


def _explain(repo: str, error: BaseException) -> tuple[str, bool]:
    """Return what went wrong, and whether the hub has refused the request."""
    causes: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in causes:
        causes.append(link)
        link = link.__cause__ or link.__context__
    limited = next((cause for cause in causes if isinstance(cause, _LimitedError)), None)
    if limited is not None:
        return f"too many requests (429); publish again {limited.wait}", True
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", False
    answers = [getattr(cause, "response", None) for cause in causes]
    status = next((answer.status_code for answer in answers if answer is not None), None)
    if status is not None:
        return _status(status, repo, error), status < 500
    if any(isinstance(cause, OSError) or "httpx" in type(cause).__module__ for cause in causes):
        return f"the hub cannot be reached ({_short(causes[-1])}); check the connection and HF_ENDPOINT", False
    return f"the upload failed ({_short(error)})", False


def _status(status: int, repo: str, error: BaseException) -> str:
    return {
        401: f"the hub does not accept the token (401): {_LOGIN} with one that is valid",
        403: f"the token may not write there (403): {_LOGIN} with write access to {repo.partition('/')[0]}",
        404: "the hub does not know it, or the token may not see it (404)",
        409: "somebody else is changing the repository (409); look at it, then publish again",
        412: "somebody else changed the repository meanwhile (412); look at it, then publish again",
    }.get(status, f"the hub answers {status} ({_short(error)})")


def _short(error: BaseException) -> str:
    """Return the text of an error in one line, at most 200 characters of it; the hub gives its reasons in later lines."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"

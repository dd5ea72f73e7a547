"""Upload a plan to the Hugging Face hub: one commit and one tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hub_upload.plan import UploadPlan
from nnd_tasks.errors import NNDError
from nnd_tasks.redact import MARK, hide
from nnd_tasks.store import CARD, read_card
from nnd_tasks.wording import some_of

#: Files of earlier versions of a published set, which are removed; all others in the repository are left.
_OURS = re.compile(r"[\w.-]+/test-\d+-of-\d+\.parquet|\w+/(_recipe|prepare\.py)|recipe\.(json|yaml)|build_report\.json")
_SHOWN = 500  # characters of an error of the hub


@dataclass(frozen=True)
class UploadResult:
    """What `upload` did.

    Attributes:
        url: of the repository.
        changed: whether there was anything to commit.
        removed: files of an earlier version that are gone.
    """

    url: str
    changed: bool
    removed: tuple[str, ...]


def check_repo(repo: str) -> None:
    """Raise NNDError for a name that no repository with a namespace can have."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise NNDError(f"--repo {repo}: {' '.join(str(error).split())}") from error
    if "/" not in repo:
        raise NNDError(f"--repo {repo}: expected NAMESPACE/NAME, such as nnd/quiz_design")


def find_token() -> str:
    """Return the token that `huggingface_hub` finds; raise NNDError where there is none."""
    from huggingface_hub import get_token

    if not (token := get_token()):
        raise NNDError("no token of the hub: run `hf auth login`, or set HF_TOKEN (with write access)")
    return token


def upload(plan: UploadPlan, *, private: bool = False, replace: bool = False) -> UploadResult:
    """Make a repository of the hub hold the files of a plan, with one commit on top of the state that was looked at.

    The hub is that of ``HF_ENDPOINT``; the token is the one of `huggingface_hub`, and is neither printed nor stored.

    Args:
        plan: from `hub_upload.plan.make_plan`.
        private: make a new repository private.
        replace: write even into a repository that holds something else than an earlier version of the set.

    Raises:
        NNDError: no token, the repository holds something else, or the hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    token = find_token()
    api = HfApi(token=token, library_name="nnd-tasks")
    place = f"{plan.repo} of {api.endpoint}"
    with _asking(place, "read", token):
        exists = api.repo_exists(plan.repo, repo_type="dataset")
    if not exists:
        with _asking(place, "created", token):
            api.create_repo(plan.repo, repo_type="dataset", private=private)
    with _asking(place, "read", token):
        info = api.dataset_info(plan.repo)
    if private and not info.private:
        raise NNDError(f"{plan.repo} is public already; leave out --private, or change its settings on the hub first")
    files = {entry.rfilename for entry in info.siblings or []}
    removed = sorted(path for path in files - plan.files.keys() if _OURS.fullmatch(path))
    card = None
    if CARD in files:
        with _asking(place, "read", token):
            card = Path(api.hf_hub_download(plan.repo, CARD, repo_type="dataset", revision=info.sha))
    if not replace and (why := _find_other(plan.name, card, files)):
        lost = {"replace": sorted(files & plan.files.keys()), "delete": removed}
        would = " and ".join(f"{verb} {some_of(paths, 10, str)}" for verb, paths in lost.items() if paths)
        raise NNDError(
            f"{plan.repo}: {why}, so it is left alone; publishing would {would or 'add files to it'}; name another repository "
            "with --repo, or add --replace"
        )
    with _asking(place, "changed", token):
        done = api.create_commit(
            plan.repo,
            [
                *(CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in plan.files.items()),
                *(CommitOperationDelete(path_in_repo=path) for path in removed),
            ],
            repo_type="dataset",
            commit_message=f"{plan.name} {plan.version}",
            parent_commit=info.sha,  # the hub refuses it where somebody else has committed since
        )
    with _asking(place, "tagged, though its files are up to date", token):
        api.create_tag(plan.repo, repo_type="dataset", tag=plan.version, revision=done.oid, exist_ok=True)
    return UploadResult(f"{api.endpoint}/datasets/{plan.repo}", done.oid != info.sha, tuple(removed))


def _find_other(name: str, card: Path | None, files: set[str]) -> str:
    """Return what a repository holds that is not the set; ``""`` where it holds the set or nothing."""
    if card is None:
        return "it has files and no card" if files - {".gitattributes"} else ""
    try:
        held = read_card(card.parent)[0].get("nnd_set")
    except NNDError:
        return "its card cannot be read"
    return "" if held == name else f"it holds the set {held}" if held else "its card names no nnd_set"


@contextmanager
def _asking(place: str, done: str, token: str) -> Iterator[None]:
    """Turn what the hub and the network raise into one line, in their own words."""
    try:
        yield
    except Exception as error:  # of many kinds, of several libraries
        line = hide(f"{place} could not be {done}: {' '.join(str(error).split()) or type(error).__name__}")
        line = line.replace(token, MARK)
        # Without its cause, because a traceback shows that, and it may quote the request with the token.
        raise NNDError(line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…") from None

"""The table of joined sources, nnd_tasks/splits.txt, and the report on what it joins, in docs/training.md.

    nnd build SET                                  # each of them, once; NND_TEST_DATA names the publishers' files
    python benchmarks/join_sources.py              # prints the report
    python benchmarks/join_sources.py --write      # and writes the table; `_SALT` in splits.py is changed by hand

Texts belong together where their publisher says so (the document of Quiz Design, the problem of HumanEvalFix, a chat), where
they are equal, and where they share a fifth of the shorter one's sequences of 8 words, or half of its sequences of 5. Sequences
in more than 20 sources are boilerplate and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter, defaultdict
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from nnd_tasks import splits as sources
from nnd_tasks.schema import to_nfc
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.sets.rows import run_prepare
from nnd_tasks.store import built_sets, dataset_folder, list_configs, read_table

#: Words of a sequence -> share of the shorter text's that makes two texts one source.
SHARED = {8: 0.2, 5: 0.5}
BOILERPLATE = 20
#: Set -> its files, the key of a text, and what its publisher calls the document.
PUBLISHERS = {
    "quiz_design": ("quiz_design/*.jsonl", "context", lambda row: row["doc_id"]),
    "humanevalfix": ("today/humanevalpack/*.jsonl", "prompt", lambda row: row["task_id"].split("/")[1]),
}
#: Set -> its folder, and what its publisher calls the document of a row of its prepare.py: a lesson, a dialogue, a question
#: before it was changed, a chat in both directions, an article or a note that the prompt does not show, a debate.
PREPARED = {
    "bridge": ("next/bridge/dataset", lambda row: row["where"].split("_")[0]),
    "mtrag": ("next/mtrag/mtrag-human/evaluations", lambda row: row["group"].split("<")[0]),
    "when2call": ("next/when2call/data/test", lambda row: row["where"].split()[0]),
    "wmt_chat": ("next/wmt_chat/data/mqm-annotations", lambda row: row["where"].rpartition(" ")[0]),
    "medec": ("later/medec", lambda row: row["where"]),
    "tofueval": ("later/tofueval", lambda row: row["group"].partition(",")[0]),
    "esa23": ("later/esa23", lambda row: row["where"].split(", ")[2].partition("#")[0]),
    "xsum_hallucination": ("later/xsum_hallucination", lambda row: row["group"]),
}
TABLE = Path(sources.__file__).with_name("splits.txt")


def read_texts() -> pd.DataFrame:
    """Return a row per set and text: ``set``, ``config``, ``text``, ``key`` (what the table has a digest of), ``prompts``."""
    parts = []
    for name in built_sets():
        for config in list_configs(dataset_folder(name))[0]:
            columns = ["context", "high", "context_id", "cluster_id"]
            tests = read_table(dataset_folder(name), config, columns).to_pandas().drop_duplicates(columns)
            tests["text"] = tests["context"].where(tests["context"] != "", tests["high"])
            tests["key"] = [sources.key_of(*pair) for pair in zip(tests["text"], tests["context_id"], strict=True)]
            parts.append(tests.assign(set=name, config=config))
    rows = pd.concat(parts).groupby(["set", "config", "text", "key"], sort=False)["cluster_id"].nunique()
    return rows.reset_index(name="prompts")


def publisher_documents(data: Path) -> pd.DataFrame:
    """Return the texts and the names of their documents, where only the publisher's file has them; a text may be in several."""
    named = []
    for name, (files, key, document) in PUBLISHERS.items():
        for path in sorted(data.glob(files)):
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                named.append((row[key], f"{name} {document(row)}"))
    for name, (folder, document) in PREPARED.items():
        found = list_recipes()[name].read()
        rows, _ = run_prepare(found.prepare, data / folder)
        texts = (
            rows.reindex(columns=["context", "chosen", "candidate"]).replace("", None).bfill(axis="columns")["context"]
        )
        named += [(text, f"{name} {document(row)}") for text, row in zip(texts, rows.to_dict("records"), strict=True)]
    documents = pd.DataFrame(named, columns=["text", "document"]).drop_duplicates()
    return documents.assign(text=documents["text"].map(to_nfc))


def connect(pairs: pd.DataFrame) -> pd.Series:
    """Return the number of each key's component, from pairs of keys (columns ``a`` and ``b``)."""
    codes, keys = pd.factorize(pairs.to_numpy().ravel())
    a, b = codes.reshape(-1, 2).T
    graph = coo_matrix((np.ones(len(a)), (a, b)), shape=(len(keys), len(keys)))
    return pd.Series(connected_components(graph, directed=False)[1], index=keys)


def sequences(text: str, length: int) -> set[str]:
    """Return the sequences of ``length`` words; a backslash and an n, which some files have for a line break, are no word.

    A text without words has none.
    """
    words = re.findall(r"[\u4e00-\u9fff]|[^\W_]+", re.sub(r"\\n(?![a-z])", " ", text).lower())
    return {" ".join(words[i : i + length]) for i in range(max(1, len(words) - length + 1)) if words}


def find_alike(owner: dict[str, int], length: int) -> list[tuple[str, str]]:
    """Return pairs of texts that share enough sequences; ``owner``: text -> number of its source so far."""
    found, holders = {text: sequences(text, length) for text in owner}, defaultdict(list)
    for text, own in found.items():
        for one in own:
            holders[one].append(text)
    shared: Counter[tuple[str, str]] = Counter()
    for together in holders.values():
        if 1 < len({owner[text] for text in together}) <= BOILERPLATE:
            shared.update(combinations(together, 2))
    least = {text: SHARED[length] * len(own) for text, own in found.items()}
    return [(a, b) for (a, b), count in shared.items() if count >= min(least[a], least[b])]


def find_joined(rows: pd.DataFrame, documents: pd.DataFrame) -> pd.Series:
    """Return key -> number of its source; `documents`: see `publisher_documents`."""
    texts = rows[["key", "text"]].drop_duplicates()
    of_key = pd.DataFrame({"a": "key " + texts["key"], "b": "text " + texts["text"]})
    built = documents[documents["text"].isin(texts["text"])]
    of_document = pd.DataFrame({"a": "text " + built["text"], "b": "document " + built["document"]})
    keys = pd.Series(texts["key"].unique())
    alike = pd.DataFrame({"a": "key " + keys, "b": [f"digest {sources.digests_of(key)[0]}" for key in keys]})
    sure = pd.concat([of_key, of_document, alike])
    source = connect(sure)
    owner = dict(zip(texts["text"], ("key " + texts["key"]).map(source), strict=True))
    alike = chain.from_iterable(find_alike(owner, length) for length in SHARED)
    near = [(f"text {a}", f"text {b}") for a, b in alike]
    source = connect(pd.concat([sure, pd.DataFrame(near, columns=["a", "b"])]))
    return pd.Series({key: source[f"key {key}"] for key in keys})


def write_table(joined: pd.Series) -> list[str]:
    """Return the lines of the table: the digests of each source whose keys have several, the smallest first."""
    digests = {key: sources.digests_of(key) for key in joined.index}
    owners = defaultdict(set)
    for key, (_, beginning) in digests.items():
        owners[beginning].add(joined[key])
    lines = []
    for keys in joined.groupby(joined).groups.values():
        wholes, beginnings = zip(*(digests[key] for key in keys), strict=True)
        if len(set(beginnings)) > 1 or any(len(owners[one]) > 1 for one in beginnings):
            long = {
                digests[key][1] for key in keys if len(key) > sources._BEGINNING and len(owners[digests[key][1]]) == 1
            }
            lines.append(" ".join([min(wholes), *sorted({*wholes, *long} - {min(wholes)})]))
    return sorted(lines)


def shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each config's prompts that is in each split."""
    of_split = rows.assign(split=rows["source"].map({one: sources.split_of(one) for one in rows["source"].unique()}))
    counts = of_split.pivot_table(
        index=["set", "config"], columns="split", values="prompts", aggfunc="sum", fill_value=0
    )
    counts = counts.reindex(columns=list(sources.SHARES), fill_value=0)
    return counts.div(counts.sum(axis="columns"), axis="index")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = read_texts()
    joined = find_joined(rows, publisher_documents(Path(os.environ["NND_TEST_DATA"])))
    if options.write:
        TABLE.write_text("\n".join([*write_table(joined), ""]), encoding="utf-8")
        sources._joined.cache_clear()
    rows["source"] = rows["key"].map({key: sources.find_source(key) for key in joined.index})
    print(rows.groupby("set").agg(texts=("text", "nunique"), sources=("source", "nunique")).to_markdown(), "\n")
    sets = rows.groupby("source")["set"].unique()
    together = Counter(pair for names in sets for pair in combinations(sorted(names), 2))
    print("\n".join(f"{' and '.join(pair)}: {count} sources" for pair, count in together.items()), "\n")
    same = rows.drop_duplicates("key").groupby(rows["key"].map(joined))
    print(f"split by mistake: {sum(one['source'].nunique() > 1 for _, one in same)} of {joined.nunique()} sources")
    beginnings = {key: sources.digests_of(key)[1] for key in joined.index}
    alone = [
        len({beginnings[key] for key in one}) == 1 for one in joined.groupby(joined).groups.values() if len(one) > 1
    ]
    print(f"of {len(alone)} joined sources the hash alone has {sum(alone)} as one\n")
    chosen = sources._SALT
    losses = {}
    for sources._SALT in range(1000):
        losses[sources._SALT] = float((shares(rows) - pd.Series(sources.SHARES) / 100).abs().to_numpy().max())
    best = min(losses, key=losses.__getitem__)
    print(f"best _SALT: {best} (largest error {losses[best]:.2f}); in use: {chosen} ({losses[chosen]:.2f})\n")
    sources._SALT = chosen
    print(shares(rows).round(2).to_markdown())


if __name__ == "__main__":
    main()

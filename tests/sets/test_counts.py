"""The real evaluations give exactly the tests that their papers report, and that the short programs below form anew.

The programs read the publishers' files and share no code with the package. ``pins.json`` holds what each config was; a change
of it changes numbers of users, so it is made on purpose (``NND_WRITE_PINS=1 pytest tests/sets/test_counts.py``) and told in
CHANGELOG.md.
"""

import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import yaml

from nnd_tasks.schema import SPANS_COLUMN, summarize
from nnd_tasks.sets.build import build_set
from nnd_tasks.store import list_configs, read_table
from tests.conftest import DATA, FOLDERS, SOURCES, needs_data
from tests.sets.oracles import (
    bridge,
    crscore,
    d2t,
    json_lines,
    lamp,
    mtrag,
    nfc,
    pairs,
    ready,
    table,
    when2call,
    wmt_chat,
    wqrm,
)

pytestmark = needs_data
PUBLISHED = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text("utf-8"))


def tsv(path):
    header, *rows = path.read_text("utf-8").split("\n")
    return [dict(zip(header.split("\t"), row.split("\t"), strict=False)) for row in rows if row]


def quiz_design(folder):
    for group in json_lines(folder / "quiz_design_groups.jsonl"):
        yield from pairs(
            group["context"], [(q["question"], q["reason"] == "No error", q["reason"]) for q in group["questions"]]
        )


TAGS = {
    "Common Sense": "commonsense, explanation, general knowledge, human behavior, hypothetical, story understanding, "
    "Winograd, history",
    "Entity": "entity substitution, entity tracking",
    "Comparison": "comparison, estimation, temporal",
    "Creativity": "example generation, false presupposition, generation, riddle",
    "Science": "math, meta-reasoning, science, spatial, steps",
}


def challenge300(folder):
    for row in table(folder / "challenge300-outputs.tsv", "\t"):
        group = next(name for name, tags in TAGS.items() if row["category"] in tags.split(", "))
        systems = [column.removeprefix("credit-") for column in row if column.startswith("credit-")]
        answers = [(row[s], float(row[f"credit-{s}"]), group, row["category"]) for s in systems]
        yield from pairs(row["question"], [answer for answer in answers if answer[1] in (0, 1)])


def summeval(folder, config):
    step = 2 if config == "authors" else 1
    articles = defaultdict(list)
    for row in json_lines(folder / "model_annotations.aligned.paired.jsonl")[step - 1 :: step]:
        articles[row["id"]].append(row)
    for rows in articles.values():
        for aspect in ("consistency", "coherence", "fluency", "relevance"):
            best = [sum(expert[aspect] == 5 for expert in row["expert_annotations"]) >= 2 for row in rows]
            judged = [(row["decoded"], good, aspect) for row, good in zip(rows, best, strict=True)]
            yield from pairs(rows[0]["text"], judged)


FRANK = {
    **dict.fromkeys(("EntE", "RelE", "CircE"), "Semantic Frame"),
    **dict.fromkeys(("CorefE", "LinkE"), "Discourse"),
    **dict.fromkeys(("OutE", "GramE"), "Verifiability"),
}


def frank_label(sentences):
    if all(sum(labels.count("NoE") for labels in sentence.values()) >= 2 for sentence in sentences):
        return "NoE"
    annotators = list(dict.fromkeys(name for sentence in sentences for name in sentence))
    errors = [e for name in annotators for s in sentences for e in s.get(name, []) if e != "NoE"]
    return max(errors, key=errors.count)  # max takes the first of equals


def frank(folder):
    split = set((folder / "test_split.txt").read_text("utf-8").split())
    articles = defaultdict(list)
    for row in json.loads((folder / "human_annotations_sentence.json").read_text("utf-8")):
        if row["hash"] in split and len(row["hash"]) >= 40:
            articles[row["hash"]].append(row)
    for rows in articles.values():
        labels = [frank_label(row["summary_sentences_annotations"]) for row in rows]
        judged = [
            (row["summary"], label == "NoE", FRANK.get(label, ""), label)
            for row, label in zip(rows, labels, strict=True)
        ]
        yield from pairs(rows[0]["article"], [one for one in judged if one[3] != "OtherE"])


def marked(target):
    """Return the places of ``<v>...</v>`` in a text without the marks."""
    places, length, opened = [], 0, -1
    for part in [*re.split("(</?v>)", target), "</v>"]:
        if part == "<v>":
            opened = length if opened < 0 else opened
        elif part == "</v>":
            places += [(opened, length)] if 0 <= opened < length else []
            opened = -1
        else:
            length += len(part)
    return tuple(places)


def mqm(folder, config):
    groups = defaultdict(list)
    for row in tsv(folder / f"mqm_{config}.tsv"):
        groups[row["doc_id"], row["seg_id"], row["source"]].append(row)
    for (_, _, source), rows in groups.items():
        yield from pairs(
            source,
            [
                (
                    re.sub("</?v>", "", row["target"]), row["category"].lower() == "no-error", row["category"].split("/")[0],
                    row["category"], row["severity"], row["rater"], marked(nfc(row["target"])),
                )
                for row in rows
            ],
        )  # fmt: skip


def place(target, error):
    """Return where an error stands: at its positions if its words are there, else at the nearest place of its words."""
    words, start = error["term"], error["startIndex"]
    if target[start : error["endIndex"] + 1] == words:
        return ((start, start + len(words)),) if words else ()
    every = [i for i in range(len(target)) if target.startswith(words, i)] if words.strip() else []
    start = min(every, key=lambda i: abs(i - start), default=-1)
    return ((start, start + len(words)),) if start >= 0 else ()


def bio_mqm(folder, config):
    groups = defaultdict(list)
    for path in sorted((folder / config).glob("*.json")):
        for row in json.loads(path.read_text("utf-8")):
            judged = groups[row["filename"], row["SEG_ID"], row["source"]]
            judged += [(row["target"], 1)] if not row["target_errors"] else []
            for error in row["target_errors"]:
                kinds = error["error_category"], error["error_subcategory"], error["severity"], row["Annotator_ID"]
                judged.append((row["target"], 0, *kinds, place(row["target"], error)))
    for (_, _, source), judged in groups.items():
        yield from pairs(source, judged)


def news_gpt3(folder, config):
    for article in json.loads((folder / f"{config}_human.json").read_text("utf-8")).values():
        scores = Counter({"gpt3": 0, "t0": 0, "brio": 0})
        for vote in article["annotators"]:
            scores[vote["best_summary"][0]] += 1
            scores[vote["worst_summary"][0]] -= 1
        judged = [(article[system]["text"], score, "preference") for system, score in scores.items()]
        yield from pairs(article["article"], judged, gap=2)


def humanevalfix(folder):
    for path in folder.glob("*.jsonl"):
        for row in json_lines(path):
            yield ready(row["prompt"], row["canonical_solution"], row["buggy_solution"], row["bug_type"], path.stem)


def prmbench(folder):
    for path in folder.glob("prm800k*.jsonl"):
        for row in json_lines(path):
            if row["original_question"] == row["modified_question"]:
                steps = [nfc(step) for step in row["modified_process"]]
                spans = []
                for number in row["error_steps"]:
                    if 1 <= number <= len(steps) and steps[number - 1]:
                        start = sum(len(step) + 1 for step in steps[: number - 1])
                        spans.append((start, start + len(steps[number - 1])))
                better, worse = "\n".join(row["original_process"]), "\n".join(steps)
                yield ready(row["original_question"], better, worse, row["classification"], "", "", "", tuple(spans))


def summedits(folder):
    for path in folder.glob("summedits_*.json"):
        groups = defaultdict(list)
        for row in json.loads(path.read_text("utf-8")):
            kind = {0: "none", 1: "".join(row["edit_types"])}.get(len(row["edit_types"]), "several")
            domain = path.stem.removeprefix("summedits_")
            groups[row["doc"], row["original_summary"]].append((row["summary"], row["label"], kind, domain))
        for (document, _), judged in groups.items():
            yield from pairs(document, judged)


def llmbar(folder):
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text("utf-8")):
            yield ready(row["input"], row[f"output_{row['label']}"], row[f"output_{3 - row['label']}"], path.stem)


def lfqa(folder):
    for row in table(folder / "HaluQuestQA.csv", "\t"):
        won = int(row["ans_preference"][-1])
        yield ready(row["question_text"], row[f"ans{won}_text"], row[f"ans{3 - won}_text"], row["category"])


def bump(folder):
    for row in json.loads((folder / "task1_dataset.json").read_text("utf-8")):
        yield ready(row["article"], row["reference_summary"], row["edited_summary"], row["error_type"])


def scored(path, context, candidate, aspects, gap):
    groups = defaultdict(lambda: defaultdict(list))
    for row in json_lines(path):
        shared = row[context] if isinstance(row[context], str) else "\n".join(
            item if isinstance(item, str) else " | ".join(item) for item in row[context]
        )  # fmt: skip
        if row[candidate].strip():
            groups[nfc(shared)][nfc(row[candidate])].append(row)
    for shared, texts in groups.items():
        for aspect in aspects.split():
            means = [(text, sum(row[aspect] for row in rows) / len(rows), aspect) for text, rows in texts.items()]
            yield from pairs(shared, means, gap - 1e-6)


def hanna(folder, _):
    aspects = "coherence complexity empathy engagement relevance surprise"
    yield from scored(folder / "hanna.jsonl", "prompt", "story", aspects, 1)


def webnlg(folder, _):
    aspects = "Correctness DataCoverage Fluency Relevance TextStructure"
    yield from scored(folder / "webnlg2020_en_human.jsonl", "triples", "text", aspects, 25)


ORACLES = {
    oracle.__name__: oracle
    for oracle in (
        *(
            quiz_design,
            challenge300,
            frank,
            humanevalfix,
            prmbench,
            summedits,
            llmbar,
            lfqa,
            bump,
            summeval,
            mqm,
            bio_mqm,
        ),
        *(news_gpt3, hanna, webnlg, lamp, wqrm, when2call, bridge, mtrag, crscore, d2t, wmt_chat),
    )
}
#: Set -> those of its configs that are formed anew, where ``authors`` is not the only one.
CONFIGS = {
    "summeval": ["authors", "all_rows"],
    "mqm": ["newstest2021_ende", "ted_ende"],
    "bio_mqm": ["en2de", "en2es", "en2ru", "en2zh", "zh2en"],
    "news_gpt3": ["cnn", "bbc"],
    "hanna": ["default"],
    "webnlg": ["default"],
    "wmt_chat": ["en_de", "de_en", "en_fr", "fr_en", "en_pt", "pt_en"],
}
KNOWN = ("category", "subcategory", "severity", "rater", "low_spans")


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name in ORACLES for config in CONFIGS.get(name, ["authors"])]
)
def test_tests_are_those_of_the_raw_file_formed_anew(name, config, real_sets):
    # The tables that other people joined are another source than what the set is built from.
    raw = DATA / ("extra" if name in ("hanna", "webnlg") else FOLDERS.get(name, name))
    theirs = Counter(ORACLES[name](raw, config) if name in CONFIGS else ORACLES[name](raw))
    known = KNOWN[: len(next(iter(theirs))) - 4]
    rows = read_table(real_sets(name), config).to_pylist()
    for row in rows:
        row["low_spans"] = tuple((span["start"], span["end"]) for span in row.get("low_spans") or ())
    ours = Counter(
        tuple(row.get(name, "") for name in ("context", "high", "low", "high_first", *known)) for row in rows
    )
    assert not list((ours - theirs).elements())[:2], "tests that the raw file does not give"
    assert not list((theirs - ours).elements())[:2], "tests that are missing"
    assert len({row["test_id"] for row in rows}) == len(rows)


@pytest.mark.parametrize(("name", "config"), [(name, config) for name in PUBLISHED for config in PUBLISHED[name]])
def test_counts_are_the_published_ones(name, config, real_sets):
    counts = Counter(read_table(real_sets(name), config).column("category").to_pylist())
    assert PUBLISHED[name][config] in (counts, counts.total())


# ---------------------------------------------------------------- pins

PINS = Path(__file__).with_name("pins.json")
PINNED = json.loads(PINS.read_text("utf-8"))


def pinned(folder):
    """Return config -> what its data are known by."""
    pins = {}
    for config in list_configs(folder)[0]:
        table = read_table(folder, config)
        summary = summarize(config, table)
        ids = hashlib.sha256("\n".join(table.column("test_id").to_pylist()).encode()).hexdigest()
        pins[config] = {
            "tests": summary.tests,
            "categories": summary.categories,
            "test_ids_sha256": ids,
            "fingerprint": summary.fingerprint,
        }
        if SPANS_COLUMN in table.column_names:  # the fingerprint leaves them out
            spans = json.dumps(table.column(SPANS_COLUMN).to_pylist()).encode()
            pins[config]["spans_sha256"] = hashlib.sha256(spans).hexdigest()
    return pins


@pytest.mark.skipif("NND_WRITE_PINS" not in os.environ, reason="pins are not to be written; set NND_WRITE_PINS")
def test_pins_are_written(real_sets):
    PINS.write_text(json.dumps({name: pinned(real_sets(name)) for name in PINNED}, indent=1) + "\n")


@pytest.mark.parametrize("name", PINNED)
def test_every_config_is_what_it_was(name, real_sets):
    assert pinned(real_sets(name)) == PINNED[name]
    assert set(SOURCES[name].recipe.published) <= set(PINNED[name])


def test_frank_without_its_split_file_is_the_same(data, real_sets, tmp_path):
    result = build_set("frank", data / "frank/human_annotations_sentence.json", tmp_path / "out")
    assert read_table(tmp_path / "out").equals(read_table(real_sets("frank")))
    assert any("848" in note and "824" in note for note in result.notes), "another count than the paper's is told"

"""The real evaluations give exactly the tests that their papers and the authors' release report.

Two independent checks: totals from the publications, and every test recomputed from the raw file by the short
re-implementations below, which share no code with the package.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import tarfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.build import BuildResult, build_set
from nnd_tasks.datasets import list_configs, read_report, read_table, tasks_dir
from nnd_tasks.yaml_json import read_yaml
from tests.conftest import SIDE_BY_SIDE, SOURCES

Row = dict[str, Any]
#: context id, context, better, worse, category, whether the better comes first in the file
Key = tuple[str, str, str, str, str, bool]


class Built:
    """A built set: its folder, what `build_set` returned, and the rows of each config."""

    def __init__(self, folder: Path, results: list[BuildResult]) -> None:
        self.folder = folder
        self.results = results
        self.rows: dict[str, list[Row]] = {
            config: read_table(folder, config).to_pylist() for config in list_configs(folder)[0]
        }


@pytest.fixture(scope="module")
def _cache() -> dict[str, Built]:
    return {}


@pytest.fixture
def built(data: Path, _cache: dict[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """Build a set from the real files, once per module."""

    def build(name: str) -> Built:
        if name not in _cache:
            folder = tmp_path_factory.mktemp("counts") / name
            results = [build_set(name, data / name, out=folder)]
            if name == "summeval":
                results.append(build_set(name, data / name, out=folder, options={"rows": "all"}))
            _cache[name] = Built(folder, results)
        return _cache[name]

    return build


# ---------------------------------------------------------------- re-implementations


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def pairs(context_id: str, context: str, judged: Iterable[tuple[str, float, str]], gap: float = 1) -> Iterator[Key]:
    """Yield the tests of one group of (text, quality, category)."""
    for (a, qa, ca), (b, qb, cb) in combinations(list(judged), 2):
        if qa - qb >= gap:
            yield context_id, nfc(context), nfc(a), nfc(b), cb, True
        elif qb - qa >= gap:
            yield context_id, nfc(context), nfc(b), nfc(a), ca, False


def expected_quiz_design(data: Path) -> Iterator[Key]:
    for line in (data / "quiz_design/quiz_design_groups.jsonl").read_text("utf-8").splitlines():
        group = json.loads(line)
        judged = [(q["question"], q["reason"] == "No error", q["reason"]) for q in group["questions"]]
        yield from pairs(str(group["group_id"]), group["context"], judged)


TAGS_OF_GROUP = {
    "Common Sense": "commonsense, explanation, general knowledge, human behavior, hypothetical, story understanding, "
    "Winograd, history",
    "Entity": "entity substitution, entity tracking",
    "Comparison": "comparison, estimation, temporal",
    "Creativity": "example generation, false presupposition, generation, riddle",
    "Science": "math, meta-reasoning, science, spatial, steps",
}
GROUP_OF_TAG = {tag: group for group, tags in TAGS_OF_GROUP.items() for tag in tags.split(", ")}


def expected_challenge300(data: Path) -> Iterator[Key]:
    with (data / "challenge300/challenge300-outputs.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            group = GROUP_OF_TAG[row["category"]]
            systems = [column.removeprefix("credit-") for column in row if column.startswith("credit-")]
            answers = [(row[s], float(row[f"credit-{s}"])) for s in systems]
            judged = [(text, credit, group) for text, credit in answers if credit in (0, 1)]
            yield from pairs(row["id"], row["question"], judged)


def expected_summeval(data: Path, start: int, step: int) -> Iterator[Key]:
    lines = (data / "summeval/model_annotations.aligned.paired.jsonl").read_text("utf-8").splitlines()
    by_article: dict[str, list[Row]] = defaultdict(list)
    for line in lines[start::step]:
        row = json.loads(line)
        by_article[row["id"]].append(row)
    for article_id, rows in by_article.items():
        for aspect in ("consistency", "coherence", "fluency", "relevance"):
            judged = [
                (row["decoded"], sum(expert[aspect] == 5 for expert in row["expert_annotations"]) >= 2, aspect)
                for row in rows
            ]
            yield from pairs(f"{article_id}/{aspect}", rows[0]["text"], judged)


FRANK_PARENTS = {
    "EntE": "Semantic Frame",
    "RelE": "Semantic Frame",
    "CircE": "Semantic Frame",
    "CorefE": "Discourse",
    "LinkE": "Discourse",
    "OutE": "Verifiability",
    "GramE": "Verifiability",
}


def frank_label(sentences: list[dict[str, list[str]]]) -> str:
    if all(sum(labels.count("NoE") for labels in sentence.values()) >= 2 for sentence in sentences):
        return "NoE"
    annotators = list(dict.fromkeys(name for sentence in sentences for name in sentence))
    errors = [e for name in annotators for s in sentences for e in s.get(name, []) if e != "NoE"]
    return max(errors, key=errors.count)  # max takes the first of equals


def expected_frank(data: Path) -> Iterator[Key]:
    split = set((data / "frank/test_split.txt").read_text("utf-8").split())
    by_article: dict[str, list[Row]] = defaultdict(list)
    for row in json.loads((data / "frank/human_annotations_sentence.json").read_text("utf-8")):
        if row["hash"] in split and len(row["hash"]) >= 40:
            by_article[row["hash"]].append(row)
    for article_id, rows in by_article.items():
        judged = []
        for row in rows:
            label = frank_label(row["summary_sentences_annotations"])
            if label != "OtherE":
                judged.append((row["summary"], label == "NoE", FRANK_PARENTS.get(label, "")))
        yield from pairs(article_id, rows[0]["article"], judged)


def mqm_candidates(path: Path) -> dict[tuple[str, str, str], list[tuple[str, str, str, str]]]:
    """Return (doc_id, seg_id, source) -> its ratings as (target, category, severity, rater), in file order."""
    header, *lines = path.read_text("utf-8").split("\n")
    columns = {name: i for i, name in enumerate(header.rstrip("\r").split("\t"))}
    groups: dict[tuple[str, str, str], list[tuple[str, str, str, str]]] = defaultdict(list)
    for line in lines:
        if line:
            cells = line.rstrip("\r").split("\t")
            cell = {name: cells[i] for name, i in columns.items() if i < 9}
            target = cell["target"].replace("<v>", "").replace("</v>", "")
            groups[cell["doc_id"], cell["seg_id"], cell["source"]].append(
                (target, cell["category"], cell["severity"], cell["rater"])
            )
    return groups


def expected_mqm(path: Path) -> Iterator[Key]:
    for (document, segment, source), ratings in mqm_candidates(path).items():
        judged = [(text, category.lower() == "no-error", category.split("/")[0]) for text, category, _, _ in ratings]
        yield from pairs(f"{document}_{segment}_{source}", source, judged)


def expected_news(path: Path) -> Iterator[Key]:
    for article_id, article in json.loads(path.read_text("utf-8")).items():
        scores = Counter({"gpt3": 0, "t0": 0, "brio": 0})
        for vote in article["annotators"]:
            scores[vote["best_summary"][0]] += 1
            scores[vote["worst_summary"][0]] -= 1
        judged = [(article[system]["text"], scores[system], "preference") for system in ("gpt3", "t0", "brio")]
        yield from pairs(article_id, article["article"], judged, gap=2)


def found(rows: Iterable[Row]) -> Counter[Key]:
    return Counter((r["context_id"], r["context"], r["high"], r["low"], r["category"], r["high_first"]) for r in rows)


def assert_same(rows: list[Row], expected: Iterable[Key]) -> None:
    ours, theirs = found(rows), Counter(expected)
    assert not list((ours - theirs).elements())[:3], "tests that the raw file does not give"
    assert not list((theirs - ours).elements())[:3], "tests that are missing"
    assert {key[-1] for key in ours} == {True, False}, "the better candidate comes first in some tests, last in others"


def per_category(rows: Iterable[Row]) -> dict[str, int]:
    return dict(Counter(row["category"] for row in rows))


def candidates(rows: Iterable[Row], *by: str) -> set[tuple[str, ...]]:
    return {(*(row[column] for column in by), row[side]) for row in rows for side in ("high", "low")}


def notes(result: BuildResult) -> str:
    return "\n".join(result.notes)


# ---------------------------------------------------------------- quiz design


def test_quiz_design_has_the_2686_tests_of_the_paper(built: Callable[[str], Built]) -> None:
    rows = built("quiz_design").rows["authors"]
    assert len(rows) == 2686
    assert per_category(rows) == {"disfluent": 711, "off_target": 890, "wrong_context": 1085}


def test_quiz_design_has_396_groups_but_332_prompts_and_1860_candidates(built: Callable[[str], Built]) -> None:
    rows = built("quiz_design").rows["authors"]
    assert len({row["context_id"] for row in rows}) == 396
    assert len({row["cluster_id"] for row in rows}) == 332
    assert len({(row["context"], row["answer"]) for row in rows}) == 332, "a cluster is a paragraph and an answer"
    assert len({(row["cluster_id"], row["context"], row["answer"]) for row in rows}) == 332
    assert len(candidates(rows, "cluster_id")) == 1860
    assert len({row["context"] for row in rows}) == 22


def test_quiz_design_answers_are_those_of_their_groups(built: Callable[[str], Built], data: Path) -> None:
    lines = (data / "quiz_design/quiz_design_groups.jsonl").read_text("utf-8").splitlines()
    answers = {str(group["group_id"]): nfc(group["answer_span"]) for group in map(json.loads, lines)}
    rows = built("quiz_design").rows["authors"]
    assert {row["context_id"]: row["answer"] for row in rows}.items() <= answers.items()


def test_quiz_design_equals_the_raw_file_paired_anew(built: Callable[[str], Built], data: Path) -> None:
    assert_same(built("quiz_design").rows["authors"], expected_quiz_design(data))


# ---------------------------------------------------------------- challenge 300


def test_challenge300_has_the_807_tests_of_the_release(built: Callable[[str], Built]) -> None:
    rows = built("challenge300").rows["authors"]
    assert len(rows) == 807
    assert per_category(rows) == {
        "Common Sense": 518,
        "Science": 193,
        "Entity": 47,
        "Creativity": 34,
        "Comparison": 15,
    }
    assert len(candidates(rows, "context")) == 772
    assert len(candidates(rows, "cluster_id")) == 772


def test_challenge300_small_categories_rest_on_few_questions(built: Callable[[str], Built]) -> None:
    clusters: dict[str, set[str]] = defaultdict(set)
    for row in built("challenge300").rows["authors"]:
        clusters[row["category"]].add(row["cluster_id"])
    assert {name: len(clusters[name]) for name in ("Comparison", "Creativity", "Entity")} == {
        "Comparison": 4,
        "Creativity": 7,
        "Entity": 9,
    }


def test_challenge300_subcategories_are_the_tags_of_the_questions(built: Callable[[str], Built], data: Path) -> None:
    with (data / "challenge300/challenge300-outputs.tsv").open(encoding="utf-8", newline="") as file:
        tags = {row["id"]: row["category"] for row in csv.DictReader(file, delimiter="\t")}
    rows = built("challenge300").rows["authors"]
    assert all(row["subcategory"] == tags[row["context_id"]] for row in rows)
    assert all(row["category"] == GROUP_OF_TAG[row["subcategory"]] for row in rows)


def test_challenge300_uses_credits_of_0_and_1_only(built: Callable[[str], Built]) -> None:
    rows = built("challenge300").rows["authors"]
    assert {(row["high_score"], row["low_score"]) for row in rows} == {(1.0, 0.0)}


def test_challenge300_keeps_the_one_test_with_an_empty_answer(built: Callable[[str], Built]) -> None:
    rows = built("challenge300").rows["authors"]
    assert sum(not row["high"].strip() or not row["low"].strip() for row in rows) == 1
    assert sum(row["low"] == "" for row in rows) == 1, "the empty answer is the worse one"


def test_challenge300_equals_the_raw_file_paired_anew(built: Callable[[str], Built], data: Path) -> None:
    assert_same(built("challenge300").rows["authors"], expected_challenge300(data))


# ---------------------------------------------------------------- summeval


def test_summeval_has_the_3613_tests_of_the_paper(built: Callable[[str], Built]) -> None:
    rows = built("summeval").rows["authors"]
    assert len(rows) == 3613
    assert per_category(rows) == {"consistency": 565, "coherence": 1188, "fluency": 752, "relevance": 1108}


def test_summeval_all_rows_is_a_second_config_in_the_same_folder(built: Callable[[str], Built]) -> None:
    summeval = built("summeval")
    configs = ["authors", "clean", "all_rows", "all_rows_clean"]
    assert list_configs(summeval.folder) == (configs, "authors")
    rows = summeval.rows["all_rows"]
    assert len(rows) == 15226
    assert per_category(rows) == {"consistency": 2624, "coherence": 4972, "fluency": 3064, "relevance": 4566}
    first, second = summeval.results
    assert ([s.name for s in first.built], first.kept) == (configs[:2], [])
    assert ([s.name for s in second.built], second.kept) == (configs[2:], configs[:2])
    assert set(json.loads((summeval.folder / "build_report.json").read_text("utf-8"))) == set(configs)


def test_summeval_groups_are_one_article_and_one_aspect(built: Callable[[str], Built]) -> None:
    rows = built("summeval").rows["all_rows"]
    assert all(row["context_id"].endswith(f"/{row['category']}") for row in rows)
    assert len({row["cluster_id"] for row in rows}) == 100, "four aspects of an article are one prompt"


@pytest.mark.parametrize(("config", "start", "step"), [("authors", 1, 2), ("all_rows", 0, 1)])
def test_summeval_equals_the_raw_file_paired_anew(
    built: Callable[[str], Built], data: Path, config: str, start: int, step: int
) -> None:
    assert_same(built("summeval").rows[config], expected_summeval(data, start, step))


# ---------------------------------------------------------------- FRANK


def test_frank_has_the_848_tests_of_the_notebook(built: Callable[[str], Built]) -> None:
    rows = built("frank").rows["authors"]
    assert len(rows) == 848
    assert len(candidates(rows, "cluster_id")) <= 875, "no more than the test split's CNN/DM summaries"


def test_frank_categories_are_the_sums_of_their_subcategories(built: Callable[[str], Built]) -> None:
    rows = built("frank").rows["authors"]
    assert {row["subcategory"] for row in rows} <= set(FRANK_PARENTS), "OtherE and NoE are no subcategory"
    sums: Counter[str] = Counter()
    for subcategory, count in Counter(row["subcategory"] for row in rows).items():
        sums[FRANK_PARENTS[subcategory]] += count
    assert per_category(rows) == dict(sums)
    assert all(row["category"] == FRANK_PARENTS[row["subcategory"]] for row in rows)


def test_frank_takes_cnndm_articles_of_the_test_split_only(built: Callable[[str], Built], data: Path) -> None:
    ids = {row["context_id"] for row in built("frank").rows["authors"]}
    assert all(len(article_id) >= 40 for article_id in ids)
    assert ids <= set((data / "frank/test_split.txt").read_text("utf-8").split())
    assert not ids & set((data / "frank/validation_split.txt").read_text("utf-8").split())


def test_frank_without_the_split_file_gives_the_same_tests(
    built: Callable[[str], Built], data: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(data / "frank/human_annotations_sentence.json", alone)
    result = build_set("frank", alone, out=tmp_path / "out")
    assert list(result.report["authors"]["source_sha256"]) == ["human_annotations_sentence.json"]
    assert read_table(tmp_path / "out").to_pylist() == built("frank").rows["authors"]


def test_frank_equals_the_raw_file_paired_anew(built: Callable[[str], Built], data: Path) -> None:
    assert_same(built("frank").rows["authors"], expected_frank(data))


# ---------------------------------------------------------------- MQM


def test_mqm_newstest_has_the_42675_tests_of_the_authors_rule(built: Callable[[str], Built]) -> None:
    rows = built("mqm").rows["newstest2021_ende"]
    assert len(rows) == 42675
    errors = Counter(row["subcategory"] for row in rows)
    assert errors["Style/Awkward"] == 18522
    assert errors["Accuracy/Mistranslation"] == 7557
    assert errors["Fluency/Punctuation"] == 7397
    assert errors["Fluency/Grammar"] == 3777
    assert all(row["category"] == row["subcategory"].split("/")[0] for row in rows)


def test_mqm_newstest_has_1211_equal_texts_and_11754_repeated_tests(built: Callable[[str], Built]) -> None:
    rows = built("mqm").rows["newstest2021_ende"]
    assert sum(row["high"] == row["low"] for row in rows) == 1211
    # A test repeats another when segment, both texts and the error (with its finer part) are the same.
    for group in ("context_id", "cluster_id"):
        assert len(rows) - len({(row[group], row["high"], row["low"], row["subcategory"]) for row in rows}) == 11754
    assert len({row["test_id"] for row in rows}) == 42675, "repeated tests have identifiers of their own"


def test_mqm_newstest_has_449_candidates_that_are_better_and_worse(built: Callable[[str], Built], data: Path) -> None:
    rows = built("mqm").rows["newstest2021_ende"]
    better = {(row["context_id"], row["high"]) for row in rows}
    worse = {(row["context_id"], row["low"]) for row in rows}
    assert len(better & worse) == 449


def test_mqm_newstest_severities_are_those_of_the_worse_candidate(built: Callable[[str], Built]) -> None:
    rows = built("mqm").rows["newstest2021_ende"]
    assert Counter(row["severity"] for row in rows) == {"Minor": 27703, "Major": 14972}


def test_mqm_texts_carry_no_span_marks(built: Callable[[str], Built]) -> None:
    for config, rows in built("mqm").rows.items():
        marked = [row["test_id"] for row in rows if any("v>" in row[side] for side in ("high", "low", "context"))]
        assert not marked, config


def test_mqm_ted_has_22139_tests_with_2277_equal_texts(built: Callable[[str], Built]) -> None:
    rows = built("mqm").rows["ted_ende"]
    assert len(rows) == 22139
    assert sum(row["high"] == row["low"] for row in rows) == 2277
    better = {(row["context_id"], row["high"]) for row in rows}
    assert len(better & {(row["context_id"], row["low"]) for row in rows}) == 481


def test_mqm_default_config_is_newstest2021(built: Callable[[str], Built]) -> None:
    names, default = list_configs(built("mqm").folder)
    assert names == ["newstest2021_ende", "newstest2021_ende_clean", "ted_ende", "ted_ende_clean"]
    assert default == "newstest2021_ende"


@pytest.mark.parametrize("config", ["newstest2021_ende", "ted_ende"])
def test_mqm_equals_the_raw_file_paired_anew(built: Callable[[str], Built], data: Path, config: str) -> None:
    assert_same(built("mqm").rows[config], expected_mqm(data / f"mqm/mqm_{config}.tsv"))


@pytest.mark.parametrize("config", ["newstest2021_ende", "ted_ende"])
def test_mqm_severity_and_rater_come_from_the_worse_rating(
    built: Callable[[str], Built], data: Path, config: str
) -> None:
    ratings = {
        (f"{document}_{segment}_{source}", nfc(target), category, severity, rater)
        for (document, segment, source), rows in mqm_candidates(data / f"mqm/mqm_{config}.tsv").items()
        for target, category, severity, rater in rows
    }
    rows = built("mqm").rows[config]
    assert {(r["context_id"], r["low"], r["subcategory"], r["severity"], r["rater"]) for r in rows} <= ratings


def marked_places(target: str) -> tuple[tuple[int, int], ...]:
    """Return the places of ``<v>...</v>`` in a text without the marks, split by another way than the package's."""
    places, length, opened = [], 0, -1
    for part in re.split("(</?v>)", target):
        if part == "<v>":
            opened = length if opened < 0 else opened
        elif part == "</v>":
            places += [(opened, length)] if 0 <= opened < length else []
            opened = -1
        else:
            length += len(part)
    return tuple([*places, (opened, length)] if 0 <= opened < length else places)


@pytest.mark.parametrize("config", ["newstest2021_ende", "ted_ende"])
def test_mqm_spans_are_where_the_marks_stood(built: Callable[[str], Built], data: Path, config: str) -> None:
    header, *lines = (data / f"mqm/mqm_{config}.tsv").read_text("utf-8").split("\n")
    names = header.split("\t")
    known = set()
    for cells in (dict(zip(names, line.split("\t"), strict=False)) for line in lines if line):
        text = cells["target"].replace("<v>", "").replace("</v>", "")
        known.add(
            (nfc(text), cells["category"], cells["severity"], cells["rater"], marked_places(nfc(cells["target"])))
        )
    rows = built("mqm").rows[config]
    spans = [tuple((span["start"], span["end"]) for span in row["low_spans"] or ()) for row in rows]
    found = {
        (row["low"], row["subcategory"], row["severity"], row["rater"], at) for row, at in zip(rows, spans, strict=True)
    }
    assert found <= known
    assert sum(map(bool, spans)) > 0.9 * len(rows)
    assert all(0 <= start < end <= len(row["low"]) for row, at in zip(rows, spans, strict=True) for start, end in at)


SXS_CATEGORIES = {
    **{"Accuracy": 9173, "Fluency": 12299, "Locale convention": 92, "Non-translation!": 4},
    **{"Other": 10, "Style": 4120, "Terminology": 820},
}


@pytest.mark.skipif(not SIDE_BY_SIDE.is_file(), reason="no side-by-side ratings in the annotation data")
def test_mqm_side_by_side_file_has_the_26518_tests_of_the_authors_rule(real_sets: Callable[[str], Path]) -> None:
    folder, config, clean = real_sets("mqm"), "sxs2023_ende", "sxs2023_ende_clean"
    assert list_configs(folder)[0][-2:] == [config, clean]
    report = read_report(folder)[config]
    assert report["categories"] == SXS_CATEGORIES
    assert (report["rows"], report["dropped"]["by_recipe"], report["tests"]) == (10970, 245, 26518)
    assert report["judgements"] == 10970 - 245
    assert report["groups"] == 307
    assert "Found" not in report["categories"]
    assert "Missed" not in report["categories"]
    # 28,144 with the marks out of sources, 752 of them of the category "Source issue".
    mended = report["cleaning"]["mended"]
    assert (mended["left_out"], mended["tests"], report["cleaning"]["kept"]) == (520, 28144 - 752, 269)
    full = read_table(folder, config).to_pylist()
    marked = [row["low"][span["start"] : span["end"]] for row in full for span in row["low_spans"] or ()]
    assert len(marked) > 0.9 * len(full)
    assert all(marked)
    rows = read_table(folder, clean).to_pylist()
    assert len(rows) == 269
    assert not any("v>" in row["context"] or row["category"] == "Source issue" for row in rows)
    recipe = SOURCES["mqm"].recipe
    [file] = [file for file in recipe.files.values() if file.config == config]
    assert report["source_sha256"] == {file.name: file.sha256}
    with tarfile.open(SIDE_BY_SIDE) as bundle:
        assert bundle.getnames() == [file.member]
    assert recipe.published[config] == report["tests"]
    assert all(
        re.search(r"/google/wmt-mqm-human-evaluation/7fadea2[0-9a-f]{33}/", one.url) for one in recipe.files.values()
    )
    for name, metadata in ((config, report), (clean, read_report(folder)[clean])):
        said = read_yaml(tasks_dir() / "mqm" / f"nnd_mqm_{name}.yaml")
        assert said["dataset_name"] == name
        assert said["metadata"]["categories"] == sorted(metadata["categories"])


# ---------------------------------------------------------------- news


def test_news_gpt3_has_205_cnn_and_208_bbc_tests(built: Callable[[str], Built]) -> None:
    news = built("news_gpt3")
    assert {config: len(news.rows[config]) for config in ("cnn", "bbc")} == {"cnn": 205, "bbc": 208}
    assert news.rows["cnn_clean"] == news.rows["cnn"], "nothing in it needs cleaning"
    assert list_configs(news.folder)[1] == "cnn"
    assert all(row["category"] == "preference" for rows in news.rows.values() for row in rows)


def test_news_gpt3_scores_differ_by_two_votes_or_more(built: Callable[[str], Built]) -> None:
    rows = [row for rows in built("news_gpt3").rows.values() for row in rows]
    gaps = {row["high_score"] - row["low_score"] for row in rows}
    assert min(gaps) == 2
    assert max(gaps) == 6, "three best votes against three worst votes"


@pytest.mark.parametrize("config", ["cnn", "bbc"])
def test_news_gpt3_equals_the_raw_file_paired_anew(built: Callable[[str], Built], data: Path, config: str) -> None:
    assert_same(built("news_gpt3").rows[config], expected_news(data / f"news_gpt3/{config}_human.json"))


# ---------------------------------------------------------------- all


@pytest.mark.parametrize("name", ["quiz_design", "challenge300", "summeval", "mqm", "news_gpt3"])
def test_counts_of_the_release_bring_no_note(built: Callable[[str], Built], name: str) -> None:
    assert [notes(result) for result in built(name).results] == [""] * len(built(name).results)


def test_frank_count_other_than_the_papers_824_brings_a_note(built: Callable[[str], Built]) -> None:
    [result] = built("frank").results
    assert len(result.notes) == 1
    assert "848" in result.notes[0]
    assert "824" in result.notes[0]


@pytest.mark.parametrize("name", ["quiz_design", "challenge300", "summeval", "frank", "mqm", "news_gpt3"])
def test_every_text_is_composed_unicode_and_every_test_id_unique(built: Callable[[str], Built], name: str) -> None:
    for config, rows in built(name).rows.items():
        assert len({row["test_id"] for row in rows}) == len(rows), config
        texts = {row[column] for row in rows for column in ("context", "high", "low")}
        assert all(unicodedata.is_normalized("NFC", text) for text in texts), config

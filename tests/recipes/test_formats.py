"""The tests that come out of a small file in each publisher's format, worked out by hand."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.build import build_set
from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.languages import language_pair
from nnd_tasks.recipes.make import config_of
from tests.conftest import DEMO_ANNOTATIONS as DEMO_PATH
from tests.conftest import SOURCES
from tests.recipes.small_files import (
    BAKERY,
    CHALLENGE_FILE,
    FRANK_FILE,
    HARBOUR,
    LONG,
    MQM_COLUMNS,
    MQM_FILE,
    OTHER,
    QUIZ_FILE,
    RIGHT,
    RIVER,
    SPLIT_FILE,
    SUMMEVAL_FILE,
    XSUM,
    challenge_row,
    challenge_text,
    frank_row,
    frank_rows,
    jsonl,
    mqm_rows,
    news_article,
    news_articles,
    quiz_group,
    small_source,
    summeval_rows,
    tsv,
    write_files,
)


def rows_of(name: str, source: Path, out: Path, config: str | None = None, **options: str) -> list[dict[str, Any]]:
    """Build and return the rows of one config."""
    return read_table(build_set(name, source, out, options).folder, config).to_pylist()


def triples(rows: Iterable[Mapping[str, Any]], *more: str) -> list[tuple[Any, ...]]:
    return [(row["high"], row["low"], row["category"], *(row[name] for name in more)) for row in rows]


# ---------------------------------------------------------------- quiz design


def test_quiz_design_pairs_error_free_questions_with_faulty_ones_of_their_group(tmp_path: Path) -> None:
    rows = rows_of("quiz_design", small_source(tmp_path / "in", "quiz_design"), tmp_path / "out")
    assert triples(rows, "context_id", "high_first") == [
        ("When did the river freeze?", "When when river freeze did?", "disfluent", "7", True),
        ("When did the river freeze?", "Where did the barges wait?", "off_target", "7", True),
        ("In which month did ice close the river?", "When when river freeze did?", "disfluent", "7", False),
        ("In which month did ice close the river?", "Where did the barges wait?", "off_target", "7", True),
        ("In what month did the river freeze?", "When was it?", "wrong_context", "8", False),
    ]
    assert {(row["context"], row["answer"]) for row in rows} == {(RIVER, "January")}
    assert len({row["cluster_id"] for row in rows}) == 1, "two groups with one prompt are one cluster"
    assert (rows[0]["high_system"], rows[0]["low_system"]) == ("model_0", "model_1")


def test_quiz_design_texts_are_composed_but_not_trimmed(tmp_path: Path) -> None:
    group = quiz_group(1, (" Why the cafe\u0301? ", "No error"), ("Why?\n", "off_target"), context="A cafe\u0301.\t")
    rows = rows_of("quiz_design", write_files(tmp_path / "in", {QUIZ_FILE: jsonl([group])}), tmp_path / "out")
    assert [(row["context"], row["high"], row["low"]) for row in rows] == [("A café.\t", " Why the café? ", "Why?\n")]


def test_quiz_design_group_with_two_contexts_is_refused(tmp_path: Path) -> None:
    good, bad = ("Right?", "No error"), ("Wrong?", "off_target")
    groups = [quiz_group(5, good, bad), quiz_group(5, good, bad, context="Another paragraph.")]
    source = write_files(tmp_path / "in", {QUIZ_FILE: jsonl(groups)})
    with pytest.raises(NNDError, match=r"line 2: context '5': .*same context"):
        build_set("quiz_design", source, tmp_path / "out")


# ---------------------------------------------------------------- challenge 300


def test_challenge300_pairs_credit_1_with_credit_0_and_keeps_quotes(tmp_path: Path) -> None:
    rows = rows_of("challenge300", small_source(tmp_path / "in", "challenge300"), tmp_path / "out")
    hands_off = 'not to touch it, or "hands off"'
    assert triples(rows, "subcategory", "high_first") == [
        (hands_off, "to wet it", "Common Sense", "commonsense", True),
        (hands_off, "water", "Common Sense", "commonsense", True),
        ("Keep your hands away.", "to wet it", "Common Sense", "commonsense", False),
        ("don't touch", "to wet it", "Common Sense", "commonsense", False),
        ("Keep your hands away.", "water", "Common Sense", "commonsense", True),
        ("don't touch", "water", "Common Sense", "commonsense", False),
        ("4", "8", "Science", "math", True),
        ("4", "", "Science", "math", True),
    ]
    assert rows[0]["context"] == 'What does a sign that says "Wet paint" ask of you?'
    assert (rows[0]["high_system"], rows[0]["low_system"]) == ("Macaw-11B", "Macaw-answer-11B")


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (challenge_row(1, "Q?", "astrology", "abcde", [1, 0, 0, 0, 0]), "'category'"),
        (challenge_row(1, "Q?", "math", "abcde", [1, 0, 0, 0, 1.5]), "'credit-T5-XXL-SSM-NQ'"),
        (challenge_row(1, "Q?", "math", "abcde", [1, -1, 0, 0, 0]), "'credit-Macaw-answer-11B'"),
        (challenge_row(1, "Q?", "math", "abcde", [1, "yes", 0, 0, 0]), "'credit-Macaw-answer-11B'"),
        (challenge_row(1, "Q?", "math", "abcde", ["nan", 0, 0, 0, 0]), "'credit-Macaw-11B'"),
    ],
    ids=["unknown tag", "credit above 1", "negative credit", "credit in words", "credit not a number"],
)
def test_challenge300_unusable_cell_is_named_by_row_and_column(tmp_path: Path, row: Any, column: str) -> None:
    source = write_files(tmp_path / "in", {CHALLENGE_FILE: challenge_text([row])})
    with pytest.raises(NNDError) as caught:
        build_set("challenge300", source, tmp_path / "out")
    assert f"{CHALLENGE_FILE}, row 2" in str(caught.value)
    assert column in str(caught.value)


# ---------------------------------------------------------------- summeval


def test_summeval_takes_every_second_row_and_needs_two_experts_of_three(tmp_path: Path) -> None:
    rows = rows_of("summeval", small_source(tmp_path / "in", "summeval"), tmp_path / "out")
    second, fourth = "A crane fell, it was closed.", "Crane crane harbour."
    assert triples(rows, "context_id", "high_first", "high_label", "low_label") == [
        (second, fourth, "coherence", "dm-test-aaaa/coherence", True, "5,5,5", "1,1,5"),
        (second, fourth, "fluency", "dm-test-aaaa/fluency", True, "5,5,4", "3,3,5"),
    ]
    assert rows[0]["context"] == HARBOUR
    assert (rows[0]["high_score"], rows[1]["low_score"]) == (5.0, pytest.approx(11 / 3))


def test_summeval_takes_all_rows_where_it_is_told_to(tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "summeval")
    rows = rows_of("summeval", source, tmp_path / "out", "all_rows", rows="all")
    first, second, third = "The harbour was closed.", "A crane fell, it was closed.", "Crane crane harbour."
    minute = "A bakery sells bread by the minute."
    assert triples(rows, "context_id") == [
        (first, second, "consistency", "dm-test-aaaa/consistency"),
        (first, third, "consistency", "dm-test-aaaa/consistency"),
        (first, third, "coherence", "dm-test-aaaa/coherence"),
        (second, third, "coherence", "dm-test-aaaa/coherence"),
        (first, third, "fluency", "dm-test-aaaa/fluency"),
        (second, third, "fluency", "dm-test-aaaa/fluency"),
        (first, second, "relevance", "dm-test-aaaa/relevance"),
        (first, third, "relevance", "dm-test-aaaa/relevance"),
        (minute, "Bread is sold.", "relevance", "dm-test-bbbb/relevance"),
        (minute, "A bakery sells minutes.", "relevance", "dm-test-bbbb/relevance"),
    ]


def test_summeval_rows_option_other_than_half_and_all_is_refused(tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "summeval")
    with pytest.raises(NNDError, match="--rows: expected half or all, found 'third'"):
        build_set("summeval", source, tmp_path / "out", {"rows": "third"})


def test_summeval_with_one_row_has_no_second_one(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows()[:1])})
    with pytest.raises(NNDError, match="fewer than 2 rows"):
        build_set("summeval", source, tmp_path / "out")


@pytest.fixture
def articles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return what writes a local dataset folder with a test split."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf_cache")

    def write(**columns: list[str]) -> Path:
        folder = tmp_path / "cnn_dailymail"
        folder.mkdir()
        datasets.Dataset.from_dict(columns).to_parquet(folder / "test-00000-of-00001.parquet")
        return folder

    return write


def test_summeval_without_articles_takes_them_from_a_local_dataset(
    tmp_path: Path, articles: Callable[..., Path]
) -> None:
    bare = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows(with_text=False))})
    folder = articles(id=["bbbb", "aaaa", "cccc"], article=[BAKERY, HARBOUR, RIVER])
    joined = rows_of("summeval", bare, tmp_path / "out", articles=str(folder))
    assert joined == rows_of("summeval", small_source(tmp_path / "with", "summeval"), tmp_path / "out2")


def test_summeval_missing_article_is_named_with_its_row(tmp_path: Path, articles: Callable[..., Path]) -> None:
    bare = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows(with_text=False))})
    folder = articles(id=["aaaa"], article=[HARBOUR])
    with pytest.raises(NNDError, match=rf"{SUMMEVAL_FILE}, line 6: article bbbb is not in {re.escape(str(folder))}"):
        build_set("summeval", bare, tmp_path / "out", {"articles": str(folder)})


def test_summeval_articles_without_their_column_are_refused(tmp_path: Path, articles: Callable[..., Path]) -> None:
    bare = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows(with_text=False))})
    folder = articles(id=["aaaa"], highlights=[HARBOUR])
    with pytest.raises(NNDError, match=rf"{re.escape(str(folder))}: no columns id and article"):
        build_set("summeval", bare, tmp_path / "out", {"articles": str(folder)})


def test_summeval_articles_that_cannot_be_loaded_bring_up_the_option(tmp_path: Path) -> None:
    bare = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows(with_text=False))})
    with pytest.raises(NNDError, match=r"without their articles.*--articles"):
        build_set("summeval", bare, tmp_path / "out", {"articles": str(tmp_path / "nowhere")})


# ---------------------------------------------------------------- FRANK

RIGHT_SUMMARY = "The harbour of Lindow was closed."


def test_frank_two_no_error_votes_make_a_sentence_right_and_ties_go_to_the_first_annotator(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {FRANK_FILE: json.dumps(frank_rows())})
    rows = rows_of("frank", source, tmp_path / "out")
    assert triples(rows, "subcategory", "low_system", "high_system") == [
        (RIGHT_SUMMARY, "It closed Orrin.", "Semantic Frame", "EntE", "s1", "s0"),
        (RIGHT_SUMMARY, "The crane closed.", "Semantic Frame", "RelE", "s2", "s0"),
        (RIGHT_SUMMARY, "Nobody was closed", "Verifiability", "OutE", "s4", "s0"),
    ]


def test_frank_summary_with_another_error_most_often_is_left_out(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {FRANK_FILE: json.dumps(frank_rows())})
    report = build_set("frank", source, tmp_path / "out").report["authors"]
    assert (report["rows"], report["judgements"]) == (5, 4)
    assert report["dropped"] == {"no_test_category": 1, "no_order": 3}, "and no order between two wrong ones"


def test_frank_split_file_rules_over_the_rows_own_split(tmp_path: Path) -> None:
    files = {FRANK_FILE: json.dumps(frank_rows()), SPLIT_FILE: f"{OTHER}\n{XSUM}\n"}
    rows = rows_of("frank", write_files(tmp_path / "in", files), tmp_path / "out")
    assert triples(rows, "context_id") == [("Closed.", "Open.", "Verifiability", OTHER)], "and XSum stays out"


def test_frank_split_file_beside_a_named_file_is_used(tmp_path: Path) -> None:
    files = {FRANK_FILE: json.dumps(frank_rows()), SPLIT_FILE: f"{OTHER}\n"}
    folder = write_files(tmp_path / "in", files)
    rows = rows_of("frank", folder / FRANK_FILE, tmp_path / "out")
    assert {row["context_id"] for row in rows} == {OTHER}


def test_frank_unknown_error_type_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    rows = [frank_row(LONG, "s0", "A.", RIGHT), frank_row(LONG, "s1", "B.", (["NewE"], ["NewE"], ["NoE"]))]
    source = write_files(tmp_path / "in", {FRANK_FILE: json.dumps(rows)})
    with pytest.raises(NNDError, match=r"summary 1, .*unknown error label 'NewE' \(known: 'NoE', .*'CorefE'"):
        build_set("frank", source, tmp_path / "out")


def test_frank_summary_with_one_annotation_only_cannot_be_judged(tmp_path: Path) -> None:
    rows = [frank_row(LONG, "s0", "A.", RIGHT), frank_row(LONG, "s1", "B.", (["NoE"],))]
    source = write_files(tmp_path / "in", {FRANK_FILE: json.dumps(rows)})
    with pytest.raises(NNDError, match=f"{FRANK_FILE}, summary 1: too few annotations"):
        build_set("frank", source, tmp_path / "out")


def test_frank_summary_without_annotated_sentences_cannot_be_judged(tmp_path: Path) -> None:
    rows = [frank_row(LONG, "s0", "A."), frank_row(LONG, "s1", "B.", (["OutE"], ["OutE"], ["OutE"]))]
    source = write_files(tmp_path / "in", {FRANK_FILE: json.dumps(rows)})
    with pytest.raises(NNDError, match=f"{FRANK_FILE}, summary 0: too few annotations"):
        build_set("frank", source, tmp_path / "out")


# ---------------------------------------------------------------- MQM

MQM_TESTS = [
    ("Die Mühle steht still.", "Die Mühle stehen still.", "Fluency", "Fluency/Grammar", "Major", "rater2", True),
    ("Die Mühle steht still.", "Die Mühle stehen still.", "Style", "Style/Awkward", "Minor", "rater2", True),
    ("Die Mühle steht still.", "Still steht sie.", "Other", "Other", "Minor", "rater3", True),
    ("Wieder Regen.", "Schon wieder.", "Accuracy", "Accuracy/Omission", "Major", "rater1", False),
]
MQM_SEEN = ("subcategory", "severity", "rater", "high_first")


def mqm_tests(tmp_path: Path, text: str, name: str = MQM_FILE) -> list[tuple[Any, ...]]:
    rows = rows_of("mqm", write_files(tmp_path / "in", {name: text}) / name, tmp_path / "out")
    return triples(rows, *MQM_SEEN)


def test_mqm_pairs_ratings_of_one_segment_and_takes_the_marks_out(tmp_path: Path) -> None:
    assert mqm_tests(tmp_path, tsv(MQM_COLUMNS, mqm_rows())) == MQM_TESTS


def test_mqm_segments_of_two_documents_are_not_mixed(tmp_path: Path) -> None:
    report = build_set("mqm", small_source(tmp_path / "in", "mqm"), tmp_path / "out").report["newstest2021_ende"]
    assert (report["groups"], report["groups_with_tests"]) == (4, 2), "documents 1 and 2 both have a segment 2"


def test_mqm_tenth_column_is_read_over(tmp_path: Path) -> None:
    rows = [[*row, f"comment {i}" if i % 2 else ""] for i, row in enumerate(mqm_rows())]
    assert mqm_tests(tmp_path, tsv([*MQM_COLUMNS, "comment"], rows)) == MQM_TESTS


def test_mqm_stray_tabs_at_the_end_of_a_row_are_read_over(tmp_path: Path) -> None:
    rows = [[*row, *[""] * (i % 3)] for i, row in enumerate(mqm_rows())]
    rows[1] = [*mqm_rows()[1], "a comment", "cut in two"]
    assert mqm_tests(tmp_path, tsv(MQM_COLUMNS, rows)) == MQM_TESTS


def test_mqm_a_comment_at_the_end_of_the_header_is_no_column(tmp_path: Path) -> None:
    rows = [[*row, "{}"] for row in mqm_rows()]  # ten cells under a header of eleven
    assert mqm_tests(tmp_path, tsv([*MQM_COLUMNS, "metadata", "# Documentation: ..."], rows)) == MQM_TESTS


@pytest.mark.parametrize("severity", ["HOTW-test", "hotw-test ", "Major"])
def test_mqm_attention_checks_are_no_judgements(tmp_path: Path, severity: str) -> None:
    check = ["beta", "news.1", "1", "1", "rater2", "The mill stands still.", "Die Mühle stehen."]
    rows = [*mqm_rows(), [*check, "Found", severity], [*check, "Missed", severity]]
    result = build_set("mqm", write_files(tmp_path / "in", {MQM_FILE: tsv(MQM_COLUMNS, rows)}), tmp_path / "out")
    assert triples(read_table(result.folder).to_pylist(), *MQM_SEEN) == MQM_TESTS
    report = result.report["newstest2021_ende"]
    assert report["dropped"]["by_recipe"] == 2
    assert report["dropped_rows"]["by_recipe"] == [len(rows), len(rows) + 1]
    assert [note for note in result.notes if "HOTW" in note] == [
        "newstest2021_ende: 2 rows left out, no judgements by the recipe (severity 'HOTW-test', category 'Found', 'Missed')"
    ]


def test_mqm_marks_in_sources_stay_in_the_full_config_and_go_in_the_clean_one(tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[4][5] = "<v>Rain</v> again."  # an omission: the mark tells what is missing
    rows[7][5:9] = ["The <v>mil</v> stands still.", "Die Mühle steht.", "Source error", "Minor"]
    rows[7][2:4] = ["1", "1"]
    result = build_set("mqm", write_files(tmp_path / "in", {MQM_FILE: tsv(MQM_COLUMNS, rows)}), tmp_path / "out")
    full = read_table(result.folder).to_pylist()
    assert triples(full, *MQM_SEEN) == MQM_TESTS[:3], "a source with marks is a segment of its own"
    clean = read_table(result.folder, "newstest2021_ende_clean").to_pylist()
    assert triples(clean, *MQM_SEEN) == MQM_TESTS
    assert {row["test_id"] for row in full} < {row["test_id"] for row in clean}
    assert {row["context"] for row in clean} == {"The mill stands still.", "Rain again."}
    mended = result.report["newstest2021_ende"]["cleaning"]["mended"]
    assert (mended["left_out"], mended["tests"]) == (1, 4)
    card = (result.folder / "README.md").read_text("utf-8")
    assert "`newstest2021_ende`: 1 judgement left out; the others give 4 tests, in place of 3" in card
    # Tests, those of each reason, left out in all, left in.
    assert "| `newstest2021_ende` | 4 | 0 | 0 | 0 (0 candidates) | 0 | 0 | 4 | `newstest2021_ende_clean` |" in card


def test_mqm_reasons_of_the_clean_config_are_those_of_the_mended_tests(tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[4][5] = "<v>Rain</v> again."  # without the mark, its segment has a test
    rows += [rows[5], rows[5]]  # which is there three times
    folder = build_set("mqm", write_files(tmp_path / "in", {MQM_FILE: tsv(MQM_COLUMNS, rows)}), tmp_path / "out").folder
    full, clean = (read_table(folder, f"newstest2021_ende{end}").num_rows for end in ("", "_clean"))
    [row] = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (folder / "README.md").read_text("utf-8").splitlines()
        if line.endswith("| `newstest2021_ende_clean` |")
    ]
    tests, _, repeated, _, _, left_out, left_in = (int(cell.split()[0]) for cell in row[1:8])
    assert (full, tests, repeated, left_out, left_in) == (3, 6, 2, 2, clean)
    assert tests - left_out == left_in == clean


def test_mqm_quotes_mean_nothing(tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[5][6] = '"Wieder Regen.'
    [*_, last] = mqm_tests(tmp_path, tsv(MQM_COLUMNS, rows))
    assert last[0] == '"Wieder Regen.'


@pytest.mark.parametrize("spelling", ["no-error", "No-Error", "NO-ERROR", " No-error "])
def test_mqm_no_error_is_known_in_any_case(tmp_path: Path, spelling: str) -> None:
    rows = [[spelling if cell == "No-error" else cell for cell in row] for row in mqm_rows()]
    assert mqm_tests(tmp_path, tsv(MQM_COLUMNS, rows)) == MQM_TESTS


@pytest.mark.parametrize(
    "columns",
    [
        ["system", "doc", "x", "docSegId", "rater", "source", "target", "category", "severity"],
        ["system", "x", "doc", "globalSegId", "rater", "source", "target", "category", "severity"],
        ["system", "x", "doc_id", "docSegId", "rater", "source", "target", "category", "severity"],
    ],
    ids=["doc+docSegId", "doc+globalSegId", "doc_id+docSegId"],
)
def test_mqm_document_and_segment_columns_of_other_releases_are_known(tmp_path: Path, columns: list[str]) -> None:
    assert mqm_tests(tmp_path, tsv(columns, mqm_rows())) == MQM_TESTS


@pytest.mark.parametrize("lost", ["system", "doc_id", "seg_id", "rater", "source", "target", "category", "severity"])
def test_mqm_without_a_needed_column_is_refused_by_file(tmp_path: Path, lost: str) -> None:
    columns = [f"no {i}" if name in (lost, "doc") else name for i, name in enumerate(MQM_COLUMNS)]
    with pytest.raises(NNDError, match=rf"{MQM_FILE}, row 1: no column .*{lost}"):
        mqm_tests(tmp_path, tsv(columns, mqm_rows()))


def test_mqm_empty_category_is_refused_by_row(tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[3][7] = "  "
    with pytest.raises(NNDError, match=f"{MQM_FILE}, row 5, column 'category': it is empty"):
        mqm_tests(tmp_path, tsv(MQM_COLUMNS, rows))


def test_mqm_folder_gives_one_config_per_file_and_leaves_averaged_scores_out(tmp_path: Path) -> None:
    text = tsv(MQM_COLUMNS, mqm_rows())
    source = write_files(
        tmp_path / "in",
        {
            "mqm_newstest2021_ende.tsv": text,
            "mqm_generalMT2022_zhen.tsv": tsv(MQM_COLUMNS, mqm_rows()[4:6]),
            "mqm_newstest2021_ende.avg_seg_scores.tsv": "system\tmqm_avg_score\tseg_id\nalpha\t0.5\t1\n",
            "README.tsv": "nothing of ours\n",
        },
    )
    result = build_set("mqm", source, tmp_path / "out")
    sizes = {s.name: s.tests for s in result.built if not s.name.endswith("_clean")}
    assert sizes == {"newstest2021_ende": 4, "generalmt2022_zhen": 1}
    assert list_configs(result.folder)[1] == "newstest2021_ende"


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_mqm_files_that_lie_packed_in_a_folder_are_found(tmp_path: Path, ending: str) -> None:
    source, names = tmp_path / "in", ("mqm_a_ende.tsv", "sub/mqm_b_ende.tsv", "x.tsv")
    (source / "sub").mkdir(parents=True)
    write_files(source, dict.fromkeys(names, tsv(MQM_COLUMNS, mqm_rows())))
    for name in names:
        packed = source / f"{name}{ending}"
        with tarfile.open(packed, "w:gz") if ending == ".tar.gz" else zipfile.ZipFile(packed, "w") as bundle:
            (bundle.add if isinstance(bundle, tarfile.TarFile) else bundle.write)(
                source / name, f"in/{Path(name).name}"
            )
    (source / "sub/mqm_b_ende.tsv").unlink()  # the other one lies there twice, and counts once
    report = build_set("mqm", source, tmp_path / "out").report
    assert [config for config in report if not config.endswith("_clean")] == ["a_ende", "b_ende"]
    digest = hashlib.sha256((source / "mqm_a_ende.tsv").read_bytes()).hexdigest()
    assert report["a_ende"]["source_sha256"] == {"mqm_a_ende.tsv": digest, "mqm_b_ende.tsv": digest}


HUMANEVALFIX = ("python", "js", "java", "go", "cpp", "rust")


def programs(folder: Path, *languages: str) -> Path:
    row = {"prompt": "p", "canonical_solution": "a", "buggy_solution": "b", "bug_type": "value misuse"}
    return write_files(folder, {f"{language}.jsonl": jsonl([row]) for language in languages})


def test_files_are_found_in_the_one_folder_that_holds_them_all(tmp_path: Path) -> None:
    source = tmp_path / "today"
    programs(source / "another", "python")
    with pytest.raises(
        NNDError, match=r"today: set humanevalfix needs python.jsonl and js.jsonl and .*, or in humaneval"
    ):
        build_set("humanevalfix", source, tmp_path / "out")
    programs(source / "humanevalpack", *HUMANEVALFIX)
    result = build_set("humanevalfix", source, tmp_path / "out")
    assert result.built[0].tests == 6
    programs(source / "humanevalpack_2", *HUMANEVALFIX)
    with pytest.raises(
        NNDError, match="'humanevalpack', 'humanevalpack_2' hold the files of set humanevalfix; name one"
    ):
        build_set("humanevalfix", source, tmp_path / "out")


def test_a_set_of_some_of_its_files_is_a_part(tmp_path: Path) -> None:
    source = programs(tmp_path / "in", *HUMANEVALFIX)
    [note] = build_set("humanevalfix", source / "js.jsonl", tmp_path / "out").notes
    assert note == (
        "this is a part of the set, from 1 of 6 files: without python.jsonl, java.jsonl, go.jsonl, cpp.jsonl, rust.jsonl"
    )


@pytest.mark.parametrize(
    ("file", "config"),
    [
        ("mqm_newstest2021_ende.tsv", "newstest2021_ende"),
        ("sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv", "sxs2023_ende"),
        ("sxs_mqm_generalMT2023_zhen.3ratingsPerSegment.tsv", "sxs_mqm_generalmt2023_zhen"),
        ("mqm_2025.zh-en.tsv", "2025_zh_en"),
        ("mqm_2025.second.tsv", "2025"),
        ("mqm_ted_zhen.tsv", "ted_zhen"),
        ("mqm_generalMT2022_enru.tsv", "generalmt2022_enru"),
        ("MQM-my ratings (v2).tsv", "my_ratings_v2"),
        ("ratings_ende.tsv", "ratings_ende"),
    ],
)
def test_mqm_config_is_named_after_the_file(file: str, config: str) -> None:
    assert config_of("mqm", SOURCES["mqm"].recipe, file, Path(file)) == config


@pytest.mark.parametrize("names", [["mqm_a b.tsv", "mqm_A-b.tsv"], ["mqm_.tsv"]], ids=["twice", "none"])
def test_mqm_files_without_a_config_name_of_their_own_are_refused(tmp_path: Path, names: list[str]) -> None:
    source = write_files(tmp_path / "in", dict.fromkeys(names, tsv(MQM_COLUMNS, mqm_rows())))
    with pytest.raises(NNDError, match="rename"):
        build_set("mqm", source, tmp_path / "out")


# ---------------------------------------------------------------- news


def test_news_gpt3_counts_the_first_system_named_in_each_vote(tmp_path: Path) -> None:
    rows = rows_of("news_gpt3", small_source(tmp_path / "in", "news_gpt3"), tmp_path / "out", "cnn")
    assert triples(rows, "context_id", "high_score", "low_score", "high_first") == [
        ("gpt3 on it", "t0 on it", "preference", "0", 3.0, -2.0, True),
        ("gpt3 on it", "brio on it", "preference", "0", 3.0, -1.0, True),
        ("brio on it", "t0 on it", "preference", "1", 1.0, -1.0, False),
    ]


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (
            [(["gpt3"], ["gpt4"])],
            r"entry '0', column 'annotators\[\]\.worst_summary\[0\]', item \[0\]: unknown system 'gpt4'",
        ),
        (
            [(["gpt3"], ["t0"]), ([], ["t0"])],
            r"entry '0', 'annotators\[\]\.best_summary\[0\]': in item \[1\] the list has no item",
        ),
        (
            [(["gpt3"], ["t0"]), ([None], ["t0"])],
            r"entry '0', column 'annotators\[\]\.best_summary\[0\]', item \[1\]: no system",
        ),
        (
            [(["gpt3"], "t0")],
            r"entry '0', 'annotators\[\]\.worst_summary\[0\]': in item \[0\] before \[0\] stands text",
        ),
    ],
    ids=["unknown", "none", "null", "text"],
)
def test_news_gpt3_vote_without_a_known_system_is_refused(tmp_path: Path, votes: Any, message: str) -> None:
    text = json.dumps({"0": news_article(HARBOUR, votes)})
    source = write_files(tmp_path / "in", {"bbc_human.json": text})
    with pytest.raises(NNDError, match=f"bbc_human.json, {message}"):
        build_set("news_gpt3", source, tmp_path / "out")


def test_news_gpt3_named_file_is_the_only_one_built(tmp_path: Path) -> None:
    text = json.dumps(news_articles())
    folder = write_files(tmp_path / "in", {"cnn_human.json": text, "bbc_human.json": text})
    one = build_set("news_gpt3", folder / "bbc_human.json", tmp_path / "one")
    assert [s.name for s in one.built] == ["bbc", "bbc_clean"]
    both = build_set("news_gpt3", folder, tmp_path / "both")
    assert [s.name for s in both.built] == ["cnn", "cnn_clean", "bbc", "bbc_clean"]


def test_news_gpt3_file_of_another_name_is_refused(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"votes.json": json.dumps(news_articles())})
    with pytest.raises(NNDError, match=r"votes\.json: its name must be cnn_human\.json or bbc_human\.json"):
        build_set("news_gpt3", folder / "votes.json", tmp_path / "out")


# ---------------------------------------------------------------- demo


def test_demo_builds_without_a_source(tmp_path: Path, nnd_home: Path) -> None:
    result = build_set("demo")
    assert result.folder == nnd_home / "nnd" / "demo"
    assert not (nnd_home / "downloads").exists()
    rows = read_table(result.folder).to_pylist()
    assert {row["kind"] for row in rows} == {"question_generation", "question_answering", "summarization"}
    assert all(bool(row["answer"]) == (row["kind"] == "question_generation") for row in rows)


def test_demo_has_60_contexts_or_more_with_two_good_and_two_bad_candidates_each() -> None:
    contexts: dict[str, list[dict[str, str]]] = {}
    with DEMO_PATH.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            contexts.setdefault(row["context_id"], []).append(row)
    assert len(contexts) >= 60
    for name, rows in contexts.items():
        good = [row["candidate"] for row in rows if row["label"] == "no_error"]
        bad = [row["candidate"] for row in rows if row["label"] != "no_error"]
        assert 4 <= len(rows) <= 6, name
        assert len(good) >= 2, name
        assert len(bad) >= 2, name
        assert len({*good, *bad}) == len(rows), f"{name}: every candidate is another text"
        assert len({(row["kind"], row["context"], row["answer"]) for row in rows}) == 1, name


def test_demo_tests_are_all_pairs_of_a_good_and_a_bad_candidate() -> None:
    with DEMO_PATH.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    good = Counter(row["context_id"] for row in rows if row["label"] == "no_error")
    expected = Counter(dict.fromkeys({row["label"] for row in rows} - {"no_error"}, 0))
    for row in rows:
        if row["label"] != "no_error":
            expected[row["label"]] += good[row["context_id"]]
    summary, cleaned = build_set("demo").built
    assert cleaned.fingerprint == summary.fingerprint, "nothing in it needs cleaning"
    assert summary.categories == dict(expected)
    assert summary.tests == sum(expected.values())


def test_languages_of_a_translation_config_are_read_off_known_pairs_only() -> None:
    assert language_pair("newstest2021_ende") == ("en", "de")
    assert language_pair("ted_zhen") == ("zh", "en")
    assert language_pair("my_data") is None
    assert language_pair("ende") is None

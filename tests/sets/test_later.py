"""Sets of clinics, classrooms, steps of reasoning, meetings and panels: counts of the publishers' files by other programs.

Each program yields a config and texts that are compared with each other, as quality and category; none shares code with the
package.
"""

import csv
import json
from collections import Counter, defaultdict
from itertools import product

import pytest

from nnd_tasks.sets.build import build_set
from nnd_tasks.store import read_table
from tests.conftest import DATA, needs_data
from tests.convarg import table
from tests.sets.tables import pick

LATER = DATA / "later"
QUALITY = {"Yes": 1, "Encouraging": 1, "No": 0, "Offensive": 0}


def load(name):
    return json.loads((LATER / name).read_text("utf-8"))


def grouped(rows, *columns):
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in columns)].append(row)
    return groups.values()


def mrbench():
    for file, key, config in (
        ("MRBench_V2", "anno_llm_responses", "v2"),
        ("mrbench_v3_devset", "tutor_responses", "bea"),
    ):
        for chat in load(f"mrbench/{file}.json"):
            judged = [one for reply in chat[key].values() for one in reply["annotation"].items()]
            for dimension in {name for name, _ in judged}:
                labels = [label for name, label in judged if name == dimension]
                if dimension == "Revealing_of_the_Answer":
                    yield config, [(label == "No", dimension) for label in labels]
                else:
                    yield config, [(QUALITY[label], dimension) for label in labels if label in QUALITY]


def medec():
    for split, prefix in (("Test", ""), ("Validation", "validation_")):
        for row in table(LATER / f"medec/MEDEC-MS-{split}Set-with-GroundTruth-and-ErrorType.csv"):
            if row["Error Flag"] == "1":
                for config in ("notes", "sentences"):
                    yield prefix + config, [(1, ""), (0, row["Error Type"])]


def mrben():
    for subject in ("biology", "chemistry", "coding", "math", "medicine", "physics"):
        for solutions in load(f"mrben/{subject}.json").values():
            yield "solution", [(one["Model_Solution_Correctness"] == "correct", subject) for one in solutions]
            for one in solutions:
                steps, wrong = one["Model_Solution_Steps"], one["Model_Solution_First_Error_Step"]
                if subject == "coding":
                    found = bool(wrong.strip()) and steps.split("\n").count(wrong) == 1
                    better = 1
                else:
                    found = wrong.isdigit() and int(wrong) <= len(list(filter(str.strip, steps)))
                    better = 2
                if one["Model_Solution_Correctness"] != "correct" and found:
                    yield "step", [(0, subject), *[(1, "")] * better]


def vtg():
    for record in load("vtg/dataset.json"):
        yield "authors", [(1, ""), (0, record["error_category"])]


def tofueval():
    for config in ("dev", "test"):
        rows = table(LATER / f"tofueval/factual_consistency/meetingbank_factual_eval_{config}.csv")
        for summaries in grouped(rows, "doc_id", "topic"):
            kinds = [{row["type"] for row in rows if row["type"]} for rows in grouped(summaries, "model_name")]
            kinds = [{part.strip() for kind in of_one for part in kind.split(",")} for of_one in kinds]
            yield config, [(not of_one, "several" if len(of_one) > 1 else "".join(of_one)) for of_one in kinds]


def esa23():
    batches = [batch["items"] for batch in load("esa23/batches_wmt23_en-de_esa.json")]
    for path in (LATER / "esa23").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            rows = sorted(csv.reader(file), key=lambda row: float(row[-1]))
        last = {(row[0], row[7], row[2]): json.loads(row[9]) for row in rows if row[3] == "TGT"}
        texts, groups = {}, defaultdict(list)
        for rater in {row[0] for row in rows}:
            asked = {(row[7], int(row[2])) for row in rows if row[0] == rater}
            (batch,) = (one for one in batches if asked <= {(item["documentID"], item["itemID"]) for item in one})
            texts |= {(rater, item["documentID"], str(item["itemID"])): item["sourceText"] for item in batch}
        for key, marks in last.items():
            document, *system = key[1].split("#")
            marks.sort(key=lambda mark: mark["severity"] != "major")
            if len(system) == 1 and "undecided" not in {mark["severity"] for mark in marks}:
                missing = any("missing" in mark.values() for mark in marks)
                kind = "omission" if missing else marks[0]["severity"] if marks else ""
                kind = marks[0]["error_type"][0] if marks and "MQM" in path.name else kind
                groups[document, texts[key]].append((not marks, kind))
        for judged in groups.values():
            yield f"{path.name[9:12].lower()}_{path.name[:6]}", judged


def basse():
    for language, criterion in product(("es", "eu"), ("Coherence", "Consistency", "Fluency", "Relevance", "5W1H")):
        for line in (LATER / f"basse/BASSE.{language}.jsonl").read_text("utf-8").splitlines():
            article = json.loads(line)
            summaries = article["model_summaries"].items()
            marks = [one["anns"][criterion] for system, one in summaries if not system.startswith("human")]
            if article["round"] < 3:  # means of three marks differ by 1 where their sums differ by 3
                yield language, [(sum(three) / 3, criterion) for three in marks]


def xsum_hallucination():
    rows = table(LATER / "xsum_hallucination/hallucination_annotations_xsum_summaries.csv")
    for summaries in grouped(rows, "bbcid"):
        judged = []
        for marks in grouped(summaries, "system"):
            pairs = {(row["worker_id"], row["hallucination_type"]) for row in marks} - {
                (f"wid_{n}", "NULL") for n in range(3)
            }
            kinds = Counter(kind for _, kind in pairs)
            agreed = [kind for kind, count in kinds.items() if count > 1]
            clean = 2 * len({worker for worker, _ in pairs}) < len({row["worker_id"] for row in marks})
            judged += [(clean, "both" if len(agreed) > 1 else "".join(agreed))] if agreed or clean else []
        yield "authors", judged


def convarg():
    titles = {row["topic"]: row["title"] for row in table(LATER / "convarg/topics.csv")}
    for row in table(LATER / "convarg/pairs.csv"):
        votes = Counter(row[f"vote_{n}"] for n in range(1, 6))
        if max(votes["a1"], votes["a2"]) >= 4:
            yield "authors", [(1, ""), (0, titles[row["topic"]])]


ORACLES = (mrbench, medec, mrben, vtg, tofueval, esa23, basse, xsum_hallucination, convarg)


@needs_data
@pytest.mark.parametrize("oracle", ORACLES)
def test_counts_are_those_of_the_raw_file(oracle, real_sets):
    counts, gap = defaultdict(Counter), 1 - 1e-9
    for config, texts in oracle():
        counts[config].update(low for (a, _), (b, low) in product(texts, texts) if a - b >= gap)
    for config, expected in counts.items():
        assert Counter(read_table(real_sets(oracle.__name__), config)["category"].to_pylist()) == expected, config


def mark(**span):
    return {"severity": "minor", "start_i": "missing", "end_i": "missing", **span}


def test_wmt24_files_of_the_publishers_form_are_read_as_they_are_meant(tmp_path):
    """Made-up files: the canary is line 0, ends are inclusive, and checks and earlier marks do not count."""
    first = [
        ("B", 1, "d1", [mark(start_i=0, end_i=1, severity="major")], 9),
        ("A", 1, "d1", [], 1),
        ("B", 1, "d1", [mark()], 2),
        ("C", 1, "d1", [mark(severity="undecided")], 3),
        ("refA", 1, "d1", [], 3),
        ("A", 2, "d2", [], 4),
        ("B", 2, "d2", [mark(), mark(severity="major", start_i=1, end_i=2)], 5),
        ("C", 2, "d2", [mark(start_i=0, end_i=0)], 5),
        ("A-tutorial", 1, "d1", [mark()], 6),
        *(("A", 2, f"d2#{odd}", [mark()], 7) for odd in ("dup", "bad", "incomplete")),
    ]
    write = [("r1", *row, "TGT") for row in first] + [("r1", "A", 2, "d2", [mark()], 8, "BAD")]
    (tmp_path / "humeval").mkdir()
    for wave in (2, 3):  # a second wave, of another pair of languages, in which the same lines are other texts
        with (tmp_path / f"humeval/esa_generalMT2024_wave{wave}.csv").open("w", encoding="utf-8", newline="") as file:
            for rater, system, line, document, marks, end, kind in write:
                pair = ["eng", ("ces", "hin")[wave - 2]]
                csv.writer(file).writerow(
                    [rater, system, line, kind, *pair, 50, document, False, json.dumps(marks), end, end]
                )
    for pair in ("en-cs", "en-hi"):
        files = {
            f"sources/{pair}.txt": ["one\u2028line", "two"],
            f"documents/{pair}.docs": ["news\td1", "social\td2"],
            f"references/{pair}.refA.txt": ["R1", "R2"],
        }
        files |= {f"system-outputs/{pair}/{name}.txt": [f"{name}{pair}1", f"{name}{pair}2"] for name in "ABC"}
        for name, lines in files.items():
            path = tmp_path / "txt" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("\r\n".join(["canary", *lines, ""]).encode())
    folder = build_set("wmt24_esa", tmp_path, tmp_path / "out").folder
    tests = read_table(folder, "en_cs").to_pylist()
    assert pick(tests, "context", "high", "low", "category", "subcategory") == [
        ("one\u2028line", "Aen-cs1", "Ben-cs1", "major", "news"),
        ("one\u2028line", "R1", "Ben-cs1", "major", "news"),
        ("two", "Aen-cs2", "Ben-cs2", "omission", "social"),
        ("two", "Aen-cs2", "Cen-cs2", "minor", "social"),
    ]
    spans = [[(span["start"], span["end"]) for span in test["low_spans"]] for test in tests]
    assert spans == [[(0, 2)], [(0, 2)], [(1, 3)], [(0, 1)]]
    assert pick(read_table(folder, "en_cs_clean").to_pylist(), "high") == [("Aen-cs1",), ("Aen-cs2",), ("Aen-cs2",)]
    assert read_table(folder, "en_hi").num_rows == 4

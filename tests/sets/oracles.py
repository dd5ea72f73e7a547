"""The tests of sets, formed anew from the publishers' files by short programs of their own; here those of 2025 and 2026.

Each yields context, better, worse, whether the better one comes first, and what is known of the worse one, as `test_counts` says.
"""

import json
import unicodedata
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations

from tests.convarg import table


def nfc(text):
    return unicodedata.normalize("NFC", text)


def json_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def ready(context, better, worse, *known):
    better, worse = nfc(better), nfc(worse)
    return nfc(context), better, worse, better < worse, *known


def pairs(context, judged, gap=1):
    """Yield context, better, worse, whether the better one comes first, and what is known of the worse one."""
    for (a, qa, *ca), (b, qb, *cb) in combinations(list(judged), 2):
        if abs(qa - qb) >= gap:
            better, worse, known = (a, b, cb) if qa > qb else (b, a, ca)
            yield nfc(context), nfc(better), nfc(worse), qa > qb, *known


def mean(scores):
    return Fraction(sum(int(score) for score in scores), len(scores))


def lamp(folder):
    for path in folder.glob("*.json"):
        for text in json.loads(path.read_text("utf-8")):
            final = text["postedit"]
            for edit in text["fine_grained_edits"]:
                before, after = edit["originalText"], edit["editedText"]
                if after.strip() and before != after and len(pieces := final.split(after)) == 2:
                    spans = ((len(pieces[0]), len(pieces[0]) + len(before)),) if before else ()
                    kind = edit["categorization"].replace("Unnecessary/ Redundant", "Unnecessary/Redundant")
                    yield ready(text["instruction"], final, before.join(pieces), kind, "", "", "", spans)


def wqrm(folder):
    places = {"Most Preferred": 1, "Second Favorite": 2, "Least Preferred": 3}
    for row in json.loads((folder / "WQRM_annotations.json").read_text("utf-8")):
        asked = row["instruction"]
        context = asked["plot"]
        if row["genre"] != "marketing":
            context += f"\nVoice: {asked['voice']}\nLength: {asked['word_count']} words"
        orders = [{draft: places[rank[:-15]] for draft, rank in rater.items()} for rater in row["annotations"]]
        for one, other in combinations(("first_draft", "random_cot", "best_cot"), 2):
            won = Counter(min((one, other), key=order.__getitem__) for order in orders)
            if won[one] != won[other]:
                better, worse = (one, other) if won[one] > won[other] else (other, one)
                yield ready(context, row[better]["candidate"], row[worse]["candidate"], "preference", row["genre"])


def when2call(folder):
    for row in json_lines(folder / "when2call_test_llm_judge.jsonl"):
        answers = row["answers"]
        right = answers.pop(row["correct_answer"])
        for behaviour in answers:
            yield ready("[" + ", ".join(row["tools"]) + "]", right, answers[behaviour], behaviour)


def bridge(folder):
    moments = [one for path in folder.glob("*.json") for one in json.loads(path.read_text("utf-8"))]
    frequent = {error for error, count in Counter(one["e"] for one in moments).items() if count > 40}
    assert len(frequent) == 6
    for one in moments:
        chat = [f"{turn['user'][0].upper()}{turn['user'][1:]}: {turn['text']}" for turn in one["c_h"]]
        texts = (" ".join(turn["text"] for turn in one[key]) for key in ("c_r_", "c_r"))
        error = one["e"] if one["e"] in frequent else "other"
        yield ready("\n".join(["Lesson: " + one["lesson_topic"], "", *chat]), *texts, error)


def mtrag(folder):
    data = json.loads((folder / "reference_subset_with_human_evaluations.json").read_text("utf-8"))
    for task in data["tasks"]:
        named = [passage["document_id"] for passage in task["contexts"]]
        texts = [next(one["text"] for one in data["documents"] if one["document_id"] == name) for name in named]
        texts += [turn["speaker"].capitalize() + ": " + turn["text"] for turn in task["input"][:-1]]
        answers = [one for one in data["evaluations"] if one["task_id"] == task["task_id"]]
        assert len(answers) == 3
        for dimension in ("faithfulness", "appropriateness", "naturalness", "completeness"):
            judged = [
                (
                    one["model_response"],
                    mean([rating["value"] for rating in one["annotations"][dimension].values()]),
                    dimension,
                )
                for one in answers
            ]
            yield from pairs("\n\n".join(texts), judged)


def crscore(folder):
    columns = {"Con (P)": "conciseness", "Comp (R)": "comprehensiveness", "Rel (F)": "relevance"}
    for language in ("py", "java", "js"):
        changes = []
        files = [table(folder / f"{language}_{rater}_review_qual_final.csv") for rater in ("atharva", "marcus")]
        for rows in zip(*files, strict=True):
            assert rows[0]["review"] == rows[1]["review"]
            changes += [[]] if rows[0]["id"] else []
            changes[-1].append(rows)
        for change in changes:
            for column, dimension in columns.items():
                scores = [[row[column] for row in rows if row[column]] for rows in change]
                judged = [
                    (rows[0]["review"], mean(given), dimension, language)
                    for rows, given in zip(change, scores, strict=True)
                    if rows[0]["review"] and given
                ]
                yield from pairs(change[0][0]["diff"], judged, 2)


def wmt_chat(folder, config):
    source, target = config.replace("pt", "pt-br").split("_")
    systems = [table(path) for path in sorted(folder.glob(f"*{(target if source == 'en' else source)}/*.csv"))]
    of_sentence = defaultdict(list)
    for row in (row for rows in systems for row in rows):
        of_sentence[row["doc_id"], int(row["segment_id"])].append(row)
    for (chat, number), rows in of_sentence.items():
        if rows[0]["source_language"] != source:
            continue
        lines = []
        for place in range(number - 10, number + 1):
            for turn in of_sentence.get((chat, place), [])[:1]:
                text = turn["source"] if turn["source_language"] == source else turn["reference"]
                lines.append(turn["sender"].capitalize() + ": " + text)
        for good in rows:
            for bad in rows:
                if not good["typology_error"] and bad["typology_error"] and good["mt"] != bad["mt"]:
                    ends = zip(bad["start_index"].split("/"), bad["end_index"].split("/"), strict=True)
                    spans = tuple(
                        (int(start), int(end)) for start, end in ends if int(start) < int(end) <= len(bad["mt"])
                    )
                    kind = bad["typology_error"].split("/")[0]
                    yield ready("\n".join(lines), good["mt"], bad["mt"], kind, "", "", "", spans)


def d2t(folder):
    names = ["Contradictory", "Not checkable", "Misleading", "Incoherent", "Repetitive", "Other"]
    texts, marks = {}, defaultdict(list)
    for path in folder.glob("outputs/**/*.jsonl"):
        for row in json_lines(path):
            texts[row["dataset"], row["split"], row["example_idx"], row["setup_id"]] = row["output"]
    for row in json_lines(folder / "annotations/human/d2t-eval/test/annotations.jsonl"):
        marks[row["dataset"], row["split"], row["example_idx"], row["setup_id"]].append(row["annotations"])
    groups, inputs = defaultdict(list), {}
    for key, given in marks.items():
        if key[1] == "test" and key in texts and len({bool(one) for one in given}) == 1:
            found = [mark for one in given for mark in one]
            kinds = [mark["type"] for mark in found]
            spans = tuple((mark["start"], mark["start"] + len(mark["text"])) for mark in found)
            kind = names[max(kinds, key=kinds.count)] if kinds else ""
            groups[key[0], key[2]].append((texts[key], not kinds, kind, key[0][4:], "", "", spans))
    for (kind, number), judged in groups.items():
        if kind not in inputs:
            data = json.loads((folder / f"inputs/d2t-eval/{kind}/test.json").read_text("utf-8"))
            inputs[kind] = data["forecasts"] if isinstance(data, dict) else data
        yield from pairs(json.dumps(inputs[kind][number], ensure_ascii=False), judged)

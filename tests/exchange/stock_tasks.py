"""Tasks of plain lm-eval on made-up documents, and their results with small trained models."""

import json
import random

WHO = ("The king", "The old man", "A young girl", "The captain", "My brother", "The doctor", "The little dog")
DID = ("walked to", "looked at", "spoke about", "ran from", "came back to", "found", "left", "remembered")
WHAT = ("the house", "the river", "the garden", "the city", "the road", "the church", "the school", "the sea")
MULTIPLE_CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}\nAnswer:",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "gold",
}
GENERATE = {
    "output_type": "generate_until",
    "doc_to_text": "{{text}}",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "do_sample": False},
}
FILTERS = {"strict": r"^\s*(\w+)", "flexible": r"\b(the|he|they|it|a)\b"}
OVERLAP = """
def score(doc, results):
    said, right = results[0].lower().split(), doc["answer"].split()
    shared = len(set(said) & {"the", "and", *right})
    return {"overlap": 2 * shared / (len(said) + len(right)), "lengths": [len(said), len(right)], "said": results[0]}

def total(values):
    return float(len(values))
"""


def mean_of(*names):
    return [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in names]


def write_tasks(folder):
    """Write two multiple-choice tasks in a group, two in one of equal weights, and two that generate; return the folder."""
    rng = random.Random(3)

    def sentence():
        return f"{rng.choice(WHO)} {rng.choice(DID)} {rng.choice(WHAT)}"

    def choose(i):
        asked = {
            "question": f"{i}: {sentence()}.",
            "choices": [f"{sentence()}." for _ in range(4)],
            "gold": rng.randrange(4),
        }
        return {**asked, "passage": f"p{i // 3}", "kind": "ab"[i % 2]}

    def go_on(i):
        return {
            "text": f"{sentence()}, and then",
            "answer": rng.choice(["the", "he", "they", "it"]),
            "kind": "xy"[i % 2],
        }

    sizes = {"mc_a": 30, "mc_b": 12, "mc_c": 20, "mc_d": 8}
    documents = {name: [choose(i) for i in range(size)] for name, size in sizes.items()}
    documents |= {"gen": [go_on(i) for i in range(24)], "overlap": [go_on(i) for i in range(24)]}
    filters = [
        {"name": name, "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}]}
        for name, pattern in FILTERS.items()
    ]
    more = {name: {**MULTIPLE_CHOICE, "metric_list": mean_of("acc", "acc_norm")} for name in sizes}
    more["gen"] = {**GENERATE, "filter_list": filters, "metric_list": mean_of("exact_match")}
    more["overlap"] = {**GENERATE, "metric_list": mean_of("overlap")}
    folder.mkdir(parents=True)
    for name, rows in documents.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test"}
        text = json.dumps({"task": name, **data, **more[name], "metadata": {"version": 1.0}}, indent=1)
        if name == "overlap":
            others = [
                {"metric": metric, "aggregation": "TOTAL", "higher_is_better": True} for metric in ("lengths", "said")
            ]
            text = text.replace('"metric_list": [', f'"metric_list": [{json.dumps(others)[1:-1]},')
            text = text.replace('"TOTAL"', "!function utils.total")[:-2] + ', "process_results": !function utils.score}'
        (folder / f"{name}.yaml").write_text(text)
    for group, tasks in {"mc": ["mc_a", "mc_b"], "mc_equal": ["mc_c", "mc_d"]}.items():
        means = [{**metric, "weight_by_size": group == "mc"} for metric in mean_of("acc", "acc_norm")]
        for mean in means:
            del mean["higher_is_better"]
        (folder / f"{group}.yaml").write_text(
            json.dumps({"group": group, "task": tasks, "aggregate_metric_list": means})
        )
    (folder / "utils.py").write_text(OVERLAP)
    return folder


TASKS = "mc,mc_equal,gen,overlap"


def command(tasks, model, out):
    """Return the arguments of ``python -m lm_eval`` that run all tasks."""
    options = {"model": "hf", "model_args": f"pretrained={model},dtype=float32", "tasks": TASKS, "include_path": tasks}
    options |= {"device": "cpu", "batch_size": 8, "output_path": out}
    return ["run", *(str(word) for name, value in options.items() for word in (f"--{name}", value)), "--log_samples"]

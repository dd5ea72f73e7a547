"""A set whose texts have systems and judgements, and runs that like the texts of some systems."""

import numpy as np

from nnd_tasks.task.documents import cluster_documents, load_tests
from tests.results.fake_runs import make_sample, score, write_run
from tests.sets.folders import to_table, write

#: The systems that wrote the six texts of a prompt; the last text is of two of them.
WRITERS = ("A", "B", "C", "A", "B", "B|C")
#: What people said of the two texts of a test, by the kind of the set.
JUDGEMENTS = {
    "score": {"high_score": 5.0, "low_score": 2.0},
    "label": {"high_label": "No error", "low_label": "disfluent"},
}


def write_set(home, kind, prompts=40):
    """Write a set ``nnd/made_up`` whose prompts have six texts, two of each of three systems.

    Args:
        home: for `NND_HOME`.
        kind: ``score``, ``label``, ``pairs`` (people only said which is better), or ``nobody`` (systems are not known).
        prompts: how many.
    """
    tests = []
    for prompt in range(prompts):
        for high in range(3):
            for low in range(3, 6):
                swapped = kind == "pairs" and (prompt + high) % 2 == 0
                better, worse = (low, high) if swapped else (high, low)
                systems = {"high_system": WRITERS[better], "low_system": WRITERS[worse]}
                tests.append(
                    {
                        "test_id": f"{prompt:08x}{high}{low}",
                        "context_id": str(prompt),
                        "cluster_id": f"{prompt:04x}",
                        "context": f"context {prompt}",
                        "high": f"text {better} of {prompt}",
                        "low": f"text {worse} of {prompt}",
                        "category": "cd"[prompt % 2],
                        "high_first": True,
                        **(systems if kind != "nobody" else {}),
                        **JUDGEMENTS.get(kind, {}),
                    }
                )
    write(home / "nnd" / "made_up", {"default": to_table(tests)})


def write_scores(folder, name, liked, seed=0, **changes):
    """Write a run on the set of `write_set`, whose scores are noise and what a model likes in the writer of a text."""
    tests, origin, _ = load_tests("nnd/made_up", None, "test", {})
    writers = {}
    for side in ("high", "low"):
        if f"{side}_system" in tests.column_names:
            writers |= dict(zip(*(tests[column].to_pylist() for column in (side, f"{side}_system")), strict=True))
    rng = np.random.default_rng(seed)
    samples = []
    for document in cluster_documents(tests, "here"):
        likings = ([liked.get(one, 0.0) for one in writers.get(text, "").split("|")] for text in document["candidates"])
        scores = [score(float(rng.normal() * 0.2 - 3 + np.mean(of_text))) for of_text in likings]
        samples.append(make_sample(document, scores))
    protocol = {"config": origin["config"], "data": origin["fingerprint"], **changes}
    return write_run(folder, name, samples=samples, protocol=protocol)

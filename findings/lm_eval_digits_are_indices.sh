#!/usr/bin/env bash
# lm-eval 0.4.13: in a multiple-choice task, a rendered text of digits is an index into the choices. So a right answer given as the
# text "1" is the second choice, whatever its text. A prompt of digits, such as the year 1984 or the number 1, becomes a number
# too: if that is the first document's, all documents are scored the other way around, with the choices as contexts and
# the target as what follows.
# Seen: right answer "1" of "2", "10", "1" is index 1, the text "10"; prompt "1" of choices "odd", "even" asks for " 0" after "odd"
# and after "even"; prompt "one" asks for " odd" and " even" after "one".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 'lm-eval[hf]==0.4.13' datasets==5.2.0
cd "$folder"
HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1 LMEVAL_LOG_LEVEL=ERROR "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import datasets
from lm_eval.api.task import ConfigurableTask


def make(document):
    rows = datasets.Dataset.from_list([document])
    config = {
        "task": "digits",
        "dataset_path": "json",
        "custom_dataset": lambda **_: {"test": rows},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{gold}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    task = ConfigurableTask(config=config)
    task.build_all_requests()
    return task.doc_to_target(document), [request.args for request in task.instances]


sums = {"prompt": "10 - 9 =", "choices": ["2", "10", "1"]}
for gold, expected in (("1", 1), ("2", 2)):
    target, _ = make({**sums, "gold": gold})
    print(f"right answer {gold!r}: index {target}, the text {sums['choices'][target]!r}")
    assert target == expected and sums["choices"][target] != gold
for prompt, expected in (("one", [("one", " odd"), ("one", " even")]), ("1", [("odd", " 0"), ("even", " 0")])):
    _, asked = make({"prompt": prompt, "choices": ["odd", "even"], "gold": 0})
    print(f"prompt {prompt!r}: asked {asked}")
    assert asked == expected
PYTHON

#!/usr/bin/env bash
# lm-eval 0.5.0.dev1: `acc_norm` and `acc_bytes` can choose another answer than in 0.4.13, from the same log-likelihoods.
# 0.4.13 divides by the length of the choice (`process_results` in `api/task.py`); 0.5.0.dev1 by that of what the model is
# asked for, with the space before it (`LLResults.from_instances` in `api/metrics/results.py` takes the choices from the
# requests). That favours short choices: a letter or digit is divided by 2. The metric's name is the same, and so
# are the files of tasks, such as arc_easy, hellaswag and piqa, with their versions. `bpb` and `choice_prob_norm`, which are new
# in 0.5.0.dev1, divide by that length too.
# Seen: "a" with -1 and "four" with -3: 0.4.13 chooses "four" (-1 against -.75), 0.5.0.dev1 "a" (-.5 against -.6).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >made_up.yaml <<'YAML'
task: made_up
dataset_path: json
dataset_kwargs: {data_files: {test: documents.json}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: [a, four]
doc_to_target: right
metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]
YAML
echo '[{"question": "How many?", "right": 1}]' >documents.json
cat >ask.py <<'PYTHON'
import sys

import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager


class FixedModel(LM):
    """A model with one log-likelihood for each text."""

    def loglikelihood(self, requests, **settings):
        return [({" a": -1.0, " four": -3.0}[request.args[1]], False) for request in requests]

    def loglikelihood_rolling(self, requests, **settings):
        raise NotImplementedError

    generate_until = loglikelihood_rolling


tasks = TaskManager(include_path=".", include_defaults=False)
results = lm_eval.simple_evaluate(model=FixedModel(), tasks=["made_up"], task_manager=tasks, bootstrap_iters=0)["results"]
found = [results["made_up"][f"{metric},none"] for metric in ("acc", "acc_norm", "acc_bytes")]
print("lm-eval", sys.argv[1], "acc, acc_norm, acc_bytes:", found)
assert found == ([0, 1, 1] if sys.argv[1] == "0.4.13" else [0, 0, 0])
PYTHON
for version in 0.4.13 0.5.0.dev1; do
  python3 -m venv "$version"
  "$version/bin/python" -m pip install --quiet "lm-eval==$version" requests==2.34.2
  HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$version/bin/python" -W ignore ask.py "$version"
done

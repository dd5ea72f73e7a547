"""`python -m shared_prefix`: the command ``lm_eval``, which knows the models of this package too."""

import sys

from shared_prefix.upstream import list_models, run_lm_eval

if __name__ == "__main__":
    known, words = list_models(), [word for argument in sys.argv for word in argument.split("=", 1)]
    model = words[words.index("--model") + 1 :][:1] if "--model" in words else []
    if model and model[0] not in known:
        sys.exit(f"--model {model[0]}: no such model; there are {', '.join(known)}")
    run_lm_eval()

"""`python -m shared_prefix`: the command ``lm_eval``, which knows the models of this package too."""

from shared_prefix.upstream import register_models, run_lm_eval

if __name__ == "__main__":
    register_models()
    run_lm_eval()

"""Models of lm-eval for every task that asks for log-likelihoods: `hf-shared-prefix`, `vllm-shared-prefix` and `nnd_mlm`."""

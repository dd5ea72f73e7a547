"""Models of lm-eval for every task of likelihoods: `hf-shared-prefix`, `vllm-shared-prefix`, `nnd_mlm`, `nnd_reward`."""

"""Models of lm-eval that answer NND requests: `hf-shared-prefix`, `vllm-shared-prefix` and `nnd_mlm`."""

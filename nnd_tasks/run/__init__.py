"""Running lm-eval with our tasks: the command line, registering, outputs."""

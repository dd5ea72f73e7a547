"""Running lm-eval with our tasks: the command line, registering, caching, saving, the callback."""

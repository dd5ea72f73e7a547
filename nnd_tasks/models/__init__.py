"""Models of lm-eval for every task of likelihoods, named in `README.md` beside this file."""

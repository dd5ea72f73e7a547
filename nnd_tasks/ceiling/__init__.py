"""What a person would get on the same tests: the pass rate of one rater, on tests that the others' judgements make."""

"""Where in the texts a likelihood decides a test: analyses of token scores."""

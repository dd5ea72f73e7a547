"""A board: static pages of all models and sets, from result folders of many people."""

"""Models that are prompted about the candidates of a task, in the place of what they would write (metalinguistic prompting).

The word is that of Hu and Levy (2023), https://arxiv.org/abs/2305.13264.
"""

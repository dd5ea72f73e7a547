"""Models of lm-eval that read common beginnings of requests once. `../README.md` names them."""

__version__ = "0.1.0"

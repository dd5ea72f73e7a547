"""The task inside the harness: documents, requests, settings, exemplars, results."""


# ---------------------------------------------------------------- documents and requests

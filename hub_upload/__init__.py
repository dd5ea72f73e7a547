"""The maintainers' script: ``python -m hub_upload NAME --repo nnd/NAME``, run in a clone."""

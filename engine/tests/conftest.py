"""What the tests of the engine share."""

import pytest

from engine_tests.session import gpt2, leave_out_complete, llama, lm_eval_handlers, make_models, masked_model

__all__ = ["gpt2", "llama", "lm_eval_handlers", "masked_model"]


def pytest_collection_modifyitems(items):
    leave_out_complete(items)


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Return name -> folder of a tiny model."""
    from engine_tests.random_models import BUILDERS

    return make_models(tmp_path_factory, "engine_models", BUILDERS)

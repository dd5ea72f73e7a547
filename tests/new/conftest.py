"""What other tests have already: the command line in this process, and tiny models."""

from tests.harness.conftest import _one_thread, tiny_models  # noqa: F401 - fixtures
from tests.test_cli import nnd  # noqa: F401 - a fixture

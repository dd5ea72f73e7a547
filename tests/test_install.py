"""What `make install` takes: the versions of constraints.txt, each with hashes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NO_HASH = {"torch", "ray"}  # each machine takes the wheel that fits it; `nox -s ray` alone takes Ray


def pins(name):
    """Return the pins of a file, ``package==version ; marker``, each with its hashes."""
    found = {}
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = re.split(r"\s+--hash=", line.strip())
            found[re.sub(r"\s*;\s*", " ; ", pin.strip())] = hashes
    return found


def test_lock_has_the_versions_of_the_constraints_and_a_hash_for_each():
    constraints, lock = pins("constraints.txt"), pins("requirements.lock")
    assert len(lock) > 150
    assert set(lock) == {pin for pin in constraints if pin.split("==")[0] not in _NO_HASH}
    for pin, hashes in lock.items():
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in hashes), pin


def test_make_runs_commands_that_can_be_typed():
    from tests.test_docs import parse

    commands = re.findall(r"\$\(BIN\)/nnd (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(commands) == 2
    for command in commands:
        parse(command.split())

"""``python -m hub_upload NAME --repo nnd/NAME``, which is ``nnd publish``."""

from __future__ import annotations

from nnd_tasks.cli import main as run


def main() -> None:
    """Run `nnd publish` with this module's arguments."""
    run(_publish)


def _publish() -> None:
    from typer.main import get_group

    from nnd_tasks.cli import app

    get_group(app).commands["publish"](prog_name="python -m hub_upload")


if __name__ == "__main__":
    main()

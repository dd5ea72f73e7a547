"""``python -m nnd_tasks.cli``."""

from nnd_tasks.cli import main

main()

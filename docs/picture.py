"""Make ``docs/images/report.png``, the picture in the README: the report of the demo, as a browser shows it.

    make demo
    .venv/bin/python docs/picture.py

It needs a Chromium: Debian's (``apt install chromium-headless-shell``), Chrome, or that of playwright.
``--browser PATH`` names another.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Pixels: the summary and the chart of pass rates, up to the table below it.
WIDTH, HEIGHT = 1000, 1165


def find_browser(named: str | None) -> str | None:
    """Return the path of a browser: the named one, one on the PATH, or playwright's own; None where there is none."""
    if named:
        return shutil.which(named)
    on_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    return on_path or _browser_of_playwright()


def _browser_of_playwright() -> str | None:
    try:
        api = importlib.import_module("playwright.sync_api")
    except ImportError:
        return None
    with api.sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return str(path) if path.exists() else None


def main() -> None:
    """Write the report of the demo into a temporary folder, open it in a browser, and save a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=ROOT / ".demo", help="folder of `nnd demo` (.demo)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "report.png", help="the picture")
    parser.add_argument("--browser", help="a Chromium or Chrome")
    options = parser.parse_args()
    results = options.demo / "results"
    if not results.is_dir():
        sys.exit(f"there are no results in {results}; run `make demo` first, or name its folder with --demo")
    browser = find_browser(options.browser)
    if browser is None:
        sys.exit("no Chromium was found: apt install chromium-headless-shell, or name one with --browser")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "nnd_tasks.cli", "report", str(results.resolve()), "-o", str(page)]
        subprocess.run(command, check=True)  # noqa: S603
        shown = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        shown += [f"--user-data-dir={folder}/browser", f"--window-size={WIDTH},{HEIGHT}"]
        shown += [f"--screenshot={options.out.resolve()}", page.as_uri()]
        subprocess.run(shown, check=True, timeout=120)  # noqa: S603
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()

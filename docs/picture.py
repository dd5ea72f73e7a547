"""Make the pictures of ``docs/images``: the report of the demo, its tests, and pass rates against size.

    .venv/bin/python docs/picture.py

They show the sample of `docs/outputs.py`, so no model runs. It needs a Chromium: Debian's (``apt install
chromium-headless-shell``), Chrome, or that of playwright. ``--browser PATH`` names another.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import outputs
from PIL import Image

IMAGES = outputs.ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Picture -> rules of CSS that hide the rest of the report, and its height in pixels.
PARTS = {
    "report": ("", 1165),
    "browse": ("body > *:not(main), main > *:not(#tests) { display: none !important }", 900),
}
WIDTH = 1000


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


def take_picture(browser: str, page: Path, picture: Path, height: int) -> None:
    """Save a page as a browser shows it.

    Args:
        browser: path of a Chromium.
        page: the page.
        picture: gets the picture, `WIDTH` pixels wide.
        height: in pixels.
    """
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
    options += [f"--user-data-dir={page.parent / 'browser'}", f"--window-size={WIDTH},{height}"]
    subprocess.run([browser, *options, f"--screenshot={picture}", page.as_uri()], check=True, timeout=120)  # noqa: S603


def main() -> None:
    """Run the commands of the sample up to the trend, and save the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", help="a Chromium or Chrome")
    options = parser.parse_args()
    browser = find_browser(options.browser)
    if browser is None:
        sys.exit("no Chromium was found: apt install chromium-headless-shell, or name one with --browser")
    names = [shown.name for shown in outputs.COMMANDS]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "sample"
        with outputs.workspace(folder):
            for shown in outputs.COMMANDS[: names.index("trend")]:
                outputs.run_command(shown.command)
            outputs.run_command("nnd trend sizes --tags models.csv --out figures")
        report = (folder / "report.html").read_text("utf-8")
        for name, (rules, height) in PARTS.items():
            page = folder / f"{name}.html"
            page.write_text(report.replace("</head>", f"<style>{rules}</style></head>", 1), encoding="utf-8")
            take_picture(browser, page, IMAGES / f"{name}.png", height)
        with Image.open(
            next((folder / "figures").glob("*.png"))
        ) as figure:  # drawn for print, larger than a page shows
            figure.reduce(2).convert("RGB").quantize(64).save(IMAGES / "trend.png", optimize=True)
    print(*sorted(IMAGES.glob("*.png")), sep="\n")


if __name__ == "__main__":
    main()

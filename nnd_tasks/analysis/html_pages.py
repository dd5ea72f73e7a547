"""What our HTML pages have in common: how templates are rendered, and which scripts and styles a page allows."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def templates(folder: Path) -> jinja2.Environment:
    """Return what renders the templates of a folder; all text from outside is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def policy_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script or style, whatever else data may hold."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

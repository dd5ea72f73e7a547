"""Appraise: rankings in XML, a row per ranked translation, whatever its element is called."""

from pathlib import Path
from xml.etree import ElementTree

import pandas as pd

FILES = "*.xml"


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        items = ElementTree.parse(path).iter("ranking-item")  # noqa: S314 (a file of one's own)
        for number, item in enumerate(items, start=1):
            shared = {child.tag: child.text for child in item if "rank" not in child.attrib}
            shared |= {"rater": item.get("user"), "where": f"{path}, item {number}"}
            found += [shared | child.attrib | {"translation": child.text} for child in item if "rank" in child.attrib]
    return pd.DataFrame(found, dtype=object)

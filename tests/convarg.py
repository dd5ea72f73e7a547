"""UKPConvArg1's XML, which is not among the data: its publisher's elements, with the texts and votes of ``later/convarg``."""

import csv
from collections import defaultdict
from xml.etree import ElementTree as ET


def table(path, delimiter=","):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def add(parent, **texts):
    for name, text in texts.items():
        ET.SubElement(parent, name).text = text


def write_xml(data, folder):
    """Write a file per topic; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {(one["topic"], one["arg"]): one["text"] for one in table(data / "arguments.csv")}
    topics = {one["topic"]: one for one in table(data / "topics.csv")}
    roots = defaultdict(lambda: ET.Element("list"))
    for one in table(data / "pairs.csv"):
        topic = topics[one["topic"]]
        pair = ET.SubElement(roots[topic["file"]], "annotatedArgumentPair")
        for name in ("arg1", "arg2"):
            argument = texts[one["topic"], one[name]]
            add(ET.SubElement(pair, name), stance=topic["stance"], text=argument, id=one[name])
        add(ET.SubElement(pair, "debateMetaData"), title=topic["title"])
        votes = ET.SubElement(pair, "mTurkAssignments")
        for n in range(1, 6):
            if one[f"vote_{n}"]:
                vote = ET.SubElement(votes, "mTurkAssignment")
                add(vote, turkID=one[f"worker_{n}"], value=one[f"vote_{n}"])
        add(pair, goldLabel=one["gold"])
    for name, root in roots.items():
        ET.ElementTree(root).write(folder / f"{name}.xml", encoding="utf-8")
    return folder

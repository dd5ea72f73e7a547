"""Languages: their codes, their names in prompts and recipes, and pairs of them in names of files and configs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml

_NAMES: dict[str, list[str]] = read_yaml(Path(__file__).with_name("languages.yaml"))
#: Code of a language (ISO 639-1) -> its English name, as prompts have it.
LANGUAGES = {code: names[0] for code, names in _NAMES.items()}
#: English name of a language, or another spelling of its code, in lower case -> its code.
CODES = {name.lower(): code for code, names in _NAMES.items() for name in names}
#: Languages of WMT that occur in pairs without English, such as ``csuk``. Any two codes would make words such as ``data``.
_WMT = "cs|de|es|et|fi|fr|gu|ha|he|hi|is|ja|kk|lt|lv|pl|ro|ru|ta|tr|uk|zh"
_ANY = "|".join(LANGUAGES)
_PAIR = re.compile(
    rf"(?:(?<=_)(?:(en)({_ANY})|({_ANY})(en)|({_WMT})({_WMT}))"
    rf"|(?:^|(?<=_))(?:({_ANY})2({_ANY})|(en)_({_ANY})|({_ANY})_(en)|({_WMT})_({_WMT})))(?=_|$)"
)
_NAME = re.compile(rf"(?<![a-z])({'|'.join(CODES)})(?![a-z])")

#: A comment in a template that says which languages its words are for, such as ``{# languages: en-de #}``. It is part of
#: the template, so a YAML that includes another one and sets its own prompt does not inherit it.
_DECLARED = re.compile(r"\{#-?\s*languages:\s*(\w+)-(\w+)\s*-?#\}")


def language_pair(config: str) -> tuple[str, str] | None:
    """Find the languages of a translation config, as codes; None where its name has no pair.

    ``ted_zhen``, ``ted_zh_en``, ``zh2en`` and ``chinese_english`` are from Chinese to English.
    """
    coded = _NAME.sub(lambda match: CODES[match[1]], config)
    matches = [tuple(filter(None, groups)) for groups in _PAIR.findall(coded)]
    pairs = [(source, target) for source, target in matches if source != target]
    return pairs[-1] if pairs else None


def translation_prompt(languages: tuple[str, str] | None) -> str:
    """Write the template of a prompt for translations; it names no languages where they are not known.

    The comment in it renders to nothing; it refuses data of other languages (`check_languages`).
    """
    if languages is None:
        return "Source: {{context}}\nTranslation:"
    source, target = (LANGUAGES[code] for code in languages)
    return f"{{# languages: {'-'.join(languages)} #}}{source}: {{{{context}}}}\n{target}:"


def check_languages(template: Any, config: str, task: str | None, where: str) -> None:
    """Raise NNDError when a prompt template is written for other languages than those of the data.

    Args:
        template: the prompt template; one without a comment that names its languages fits all data.
        config: the config of the data; its name may end in a language pair, such as ``ende``.
        task: name of the task.
        where: where the data comes from.
    """
    declared = _DECLARED.search(template) if isinstance(template, str) else None
    languages = language_pair(config)
    if declared is None or languages is None or languages == declared.groups():
        return
    raise NNDError(
        f"task {task}: its prompt is for {'-'.join(declared.groups())}, {where} config {config} is {'-'.join(languages)}; "
        f"take the task that `nnd build` wrote for this config, or set doc_to_text in the YAML: {translation_prompt(languages)!r}"
    )

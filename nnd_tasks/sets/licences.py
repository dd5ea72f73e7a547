"""What may be published: licences that let anyone pass a set on, and the terms of the texts that our sets are made of.

The rule: a set is published with its texts where every licence on its card is one of `_OPEN` (`check_licences`), and the terms
of its texts allow it (`terms_of`, `texts_may_go`). Otherwise only ids and a recipe are published. Where the publisher of an
annotation grants a licence but the texts belong to others, the stricter reading counts. Not legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnd_tasks.errors import NNDError

# ---------------------------------------------------------------- licences on a card

#: Licences of the hub's list that let anyone pass on a work and what was made from it.
_OPEN = re.compile(
    r"apache-2\.0|mit|bsd(-[23]-clause(-clear)?)?|cc0-1\.0|cc-by-(2\.0|2\.5|3\.0|4\.0)|cc-by-sa-(3\.0|4\.0)"
    r"|cc-by-nc-(2\.0|3\.0|4\.0)|cc-by-nc-sa-(2\.0|3\.0|4\.0)|gfdl|pddl|odc-by|odbl|cdla-permissive-[12]\.0|cdla-sharing-1\.0"
    r"|etalab-2\.0|unlicense|wtfpl|isc|zlib|artistic-2\.0|mpl-2\.0|afl-3\.0|ecl-2\.0|ms-pl|postgresql|ncsa"
    r"|(a|l)?gpl(-(2\.1|2\.0|3\.0))?|eupl-1\.[12]|epl-[12]\.0|osl-3\.0|lgpl-lr"
)
_NO_DERIVATIVES = re.compile(r"cc-by(-nc)?-nd(-\d\.\d)?")


def licence_names(value: object) -> list[str]:
    """Return the licences that a card's header names, in lower case."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item.strip().lower() for item in values if isinstance(item, str) and item.strip()]


def refusal(licence: str) -> str | None:
    """Return why a licence does not allow to publish a set with its texts, or None where it does.

    Args:
        licence: hub identifier, in lower case.
    """
    if _OPEN.fullmatch(licence):
        return None
    if _NO_DERIVATIVES.fullmatch(licence):
        return "allows no derivatives, which pairs of a better and a worse text are"
    return "is not known to let you pass the texts on"


def check_licences(names: Sequence[str], where: str) -> None:
    """Check that licences allow to publish a set with its texts.

    Args:
        names: hub identifiers, in lower case.
        where: what to name in an error.

    Raises:
        NNDError: one of them does not, or is unknown to the hub.
    """
    for licence in names:
        why = refusal(licence)
        if why is not None:
            raise NNDError(f"{where}: licence {licence} {why}; publish ids and a recipe instead with --ids-only")


# ---------------------------------------------------------------- terms of the texts


@dataclass(frozen=True, slots=True)
class Terms:
    """Whose some texts are, and what one may do with them.

    Attributes:
        texts: which texts.
        terms: the terms, in words.
        source: where they are stated.
        redistribute: whether they let anyone publish the texts in pairs of a better and a worse one.
        licences: hub identifiers that a dataset with these texts must carry besides that of the annotations.
    """

    texts: str
    terms: str
    source: str
    redistribute: bool
    licences: tuple[str, ...] = ()


CNN_DM = Terms(
    "articles and highlights of CNN and the Daily Mail (CNN/DailyMail), and summaries made from them",
    "copyright of CNN and of the Daily Mail. The Apache-2.0 that the release carries on the hub is read as that of its "
    "scripts, which fetched the pages from an archive; only the publishers can license the articles.",
    "https://huggingface.co/datasets/abisee/cnn_dailymail",
    redistribute=False,
)
XSUM = Terms(
    "articles of the BBC (XSum), and summaries made from them",
    "copyright of the BBC; we know of no licence to republish whole articles. Rows from XSum are in the source file, and no "
    "test of this set is made from them.",
    "https://github.com/EdinburghNLP/XSum/issues/13; https://www.bbc.co.uk/usingthebbc/terms/",
    redistribute=False,
)
NEWS = Terms(
    "articles of CNN and of the BBC, and summaries made from them",
    "copyright of CNN and of the BBC; we know of no licence to republish whole articles. The CC BY 4.0 of the release is "
    "read as that of the annotations.",
    "https://tagoyal.github.io/zeroshot-news-annotations.html; https://www.bbc.co.uk/usingthebbc/terms/",
    redistribute=False,
)
WMT = Terms(
    "news texts of the WMT shared tasks, their translations by people and by the systems that took part",
    "released for research, with a citation of the shared task; for any other use one has to ask the owners of the texts, "
    "which are newspapers. That does not allow publishing them again, although Google's release has them under Apache-2.0.",
    "https://www.statmt.org/wmt21/translation-task.html",
    redistribute=False,
)
TED = Terms(
    "transcripts of TED talks and their translations",
    "CC BY-NC-ND (TED Conferences LLC), transcripts and translations alike: no commercial use, and no derivatives, which "
    "translations with errors, and pairs of them, are.",
    "https://www.ted.com/about/our-organization/our-policies-terms/ted-talks-usage-policy",
    redistribute=False,
)
MEDLINE = Terms(
    "abstracts of articles in MEDLINE, their translations by people, and by the systems of the WMT21 biomedical task",
    "the National Library of Medicine says that abstracts may be under the copyright of the articles' publishers; we know of "
    "no licence from them. The Apache-2.0 of the release is read as that of the annotations.",
    "https://www.nlm.nih.gov/databases/download/terms_and_conditions.html",
    redistribute=False,
)
WIKITEXT = Terms(
    "paragraphs of Wikipedia (WikiText-103), and the same with synthetic errors",
    "CC BY-SA 3.0 and GFDL: the authors are those of the Wikipedia articles, and what is made from the texts stays under "
    "these licences. Every worse text was changed on purpose.",
    "https://huggingface.co/datasets/Salesforce/wikitext",
    redistribute=True,
    licences=("cc-by-sa-3.0", "gfdl"),
)
WIKIPEDIA = Terms(
    "paragraphs of Wikipedia articles (the publisher names no source; the titles and headings in its `qd_content.json` "
    "are those of Wikipedia)",
    "CC BY-SA 3.0: the authors are those of the Wikipedia articles. The questions are the publisher's, under the licence "
    "of the annotations.",
    "https://github.com/salesforce/QGen/tree/main/Quiz_Design",
    redistribute=True,
    licences=("cc-by-sa-3.0",),
)
MACAW = Terms(
    "questions of the Challenge 300 set and answers of five systems",
    "Apache-2.0 with the rest of the publisher's repository; the answers are output of models and were published with it.",
    "https://github.com/allenai/macaw",
    redistribute=True,
)
STORIES = Terms(
    "prompts and stories that users of Reddit wrote (WritingPrompts), and stories of systems",
    "the prompts and the stories of people belong to those who wrote them; we know of no licence from them. The MIT licence "
    "of the release is read as that of the annotations.",
    "https://github.com/dig-team/hanna-benchmark-asg",
    redistribute=False,
)
WEBNLG = Terms(
    "triples and texts of the WebNLG challenge 2020, by people and by systems",
    "CC BY-NC-SA 4.0: no commercial use, and what is made from it stays under this licence.",
    "https://synalp.gitlabpages.inria.fr/webnlg-challenge/challenge_2020/",
    redistribute=True,
    licences=("cc-by-nc-sa-4.0",),
)
HUMANEVAL = Terms(
    "programming problems of HumanEval and their translations into five languages, with right solutions and such with a bug",
    "MIT with the rest of the publisher's repository. HumanEval, from which the problems come, is under MIT too, and "
    "HumanEval-X, from which their translations come, under Apache-2.0.",
    "https://github.com/openai/human-eval; https://github.com/bigcode-project/octopack",
    redistribute=True,
    licences=("apache-2.0",),
)
COMPETITIONS = Terms(
    "problems of mathematical competitions (of MATH, by way of PRM800K), and solutions by models",
    "the problems belong to those who hold the competitions. MATH was taken from the hub in 2025 after a notice of the Art of "
    "Problem Solving. The Apache-2.0 of the release is read as that of the changed solutions.",
    "https://huggingface.co/datasets/hendrycks/competition_math/discussions/5; https://github.com/openai/prm800k",
    redistribute=False,
)
EIGHT_DOMAINS = Terms(
    "documents of eight domains: news, dialogues of SAMSum, earnings calls, meetings, abstracts, podcasts, sales calls and "
    "emails; and edited summaries",
    "the news articles and podcasts belong to their publishers; SAMSum is under CC BY-NC-ND 4.0, which allows no derivatives. "
    "The Apache-2.0 of the release is read as that of the edits and judgements.",
    "https://github.com/salesforce/factualNLG; https://huggingface.co/datasets/Samsung/samsum",
    redistribute=False,
)
INSTRUCTIONS = Terms(
    "instructions and answers from Alpaca, OpenAssistant, ShareGPT, AlpacaFarm and LLMEval2, and such that the authors wrote",
    "Alpaca and AlpacaFarm are under CC BY-NC 4.0; we know of no licence of those who shared their dialogues on ShareGPT. The "
    "MIT licence of the release is read as that of the annotations.",
    "https://github.com/princeton-nlp/LLMBar; https://github.com/tatsu-lab/alpaca_farm",
    redistribute=False,
)
REDDIT = Terms(
    "questions and answers that users of Reddit wrote (ELI5), and answers of models",
    "those of people belong to their writers; we know of no licence from them. The CC BY-SA 4.0 of the release is read as that "
    "of the annotations and of the models' answers; whether it is meant for commercial use is to be checked.",
    "https://github.com/UKPLab/arxiv2024-lfqa-hallucination",
    redistribute=False,
)
OWN = Terms(
    "contexts and candidates that were written for this project",
    "Apache-2.0, as the package that they come with.",
    "the package nnd-tasks",
    redistribute=True,
)

#: Set of `nnd build`, or of a recipe that comes with the package -> terms of its texts.
SETS: Mapping[str, tuple[Terms, ...]] = {
    "quiz_design": (WIKIPEDIA,),
    "challenge300": (MACAW,),
    "summeval": (CNN_DM,),
    "frank": (CNN_DM, XSUM),
    "mqm": (WMT, TED),
    "bio_mqm": (MEDLINE,),
    "news_gpt3": (NEWS,),
    "demo": (OWN,),
    "hanna": (STORIES,),
    "webnlg": (WEBNLG,),
    "humanevalfix": (HUMANEVAL,),
    "prmbench": (COMPETITIONS,),
    "summedits": (EIGHT_DOMAINS,),
    "llmbar": (INSTRUCTIONS,),
    "lfqa": (REDDIT,),
    "bump": (CNN_DM,),
}
#: Corpus of `nnd stress build` -> terms of its texts.
CORPORA: Mapping[str, tuple[Terms, ...]] = {
    "wikitext": (WIKITEXT,),
    "cnndm": (CNN_DM,),
    "wmt": (WMT,),
    "ted": (TED,),
}


def terms_of(name: str, report: Mapping[str, object]) -> tuple[Terms, ...]:
    """Return the terms of the texts of a set; none for a set that we do not know.

    Args:
        name: of the set.
        report: its part of ``build_report.json``: a stress set names its corpus there.
    """
    corpus = report.get("corpus")
    if isinstance(corpus, str):
        return CORPORA.get(corpus, ())
    return SETS.get(name, ())


def texts_may_go(terms: Iterable[Terms]) -> bool:
    """Tell whether all texts of a set may be published."""
    return all(term.redistribute for term in terms)


def publishing_note(terms: Sequence[Terms]) -> str:
    """Return what of a set may be published, as a sentence for its card; ``""`` where the terms of its texts are not known."""
    if not terms:
        return ""
    if texts_may_go(terms):
        return "May be published with its texts (`nnd publish`)."
    closed = "; ".join(term.texts for term in terms if not term.redistribute)
    return f"Ids and the recipe may be published (`nnd publish`), the texts not: they are {closed}."

"""What may be passed on: the terms of the texts that sets are made of; licences are those of `nnd_tasks.check.licences`.

Not legal advice: where the publisher of an annotation grants a licence but the texts belong to others, the stricter
reading counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nnd_tasks.check.licences import check_licences, licences

__all__ = ["CORPORA", "SETS", "Terms", "check_licences", "licences", "terms_of", "texts_may_go"]


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
    "which are newspapers. That is no leave to publish them again, although Google's release has them under Apache-2.0.",
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
    "news_gpt3": (NEWS,),
    "demo": (OWN,),
    "hanna": (STORIES,),
    "webnlg": (WEBNLG,),
}
#: Corpus of `nnd stress build` -> terms of its texts.
CORPORA: Mapping[str, tuple[Terms, ...]] = {
    "wikitext": (WIKITEXT,),
    "cnndm": (CNN_DM,),
    "wmt": (WMT,),
    "ted": (TED,),
}


def terms_of(name: str, report: Mapping[str, object]) -> tuple[Terms, ...]:
    """Return the terms of the texts of a set, as far as we know them.

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

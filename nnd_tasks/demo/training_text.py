"""The text that the demo's model learns from: documents in the three formats of `nnd_demo`, made from frames and words.

A paragraph takes a few frames of one theme (`frames.txt`) and fills their slots with words (`words.txt`). The names, numbers
and things of each document are new, so that only who reads the paragraph can say what follows it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
WORDS = HERE / "words.txt"
FRAMES = HERE / "frames.txt"

#: Share of the documents that are a question and its answer, without a paragraph.
QUESTIONS_ALONE = 0.35
#: Most questions and summaries that follow a paragraph.
TAILS = 3

#: (prompt, continuation) pairs, to be joined in their order; the paragraph is in the first prompt only.
Document = list[tuple[str, str]]

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(a )?([A-Za-z_]+?)(\d?)\}")
_PRONOUNS = {
    "girl": {"she": "she", "her": "her", "him": "her"},
    "boy": {"she": "he", "her": "his", "him": "him"},
}
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_FORMS = ("do", "did", "done", "does")
_ONES = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")


@dataclass
class Frame:
    """A sentence or two with slots, and what can be asked and said about them.

    Attributes:
        text: the sentences; empty in the theme ``qa``.
        leads: a paragraph may begin with it.
        questions: (answer, question) pairs; in the theme ``qa`` the answers are in ``answers``.
        summaries: summaries of the sentences.
        answers: answers to the question, in the theme ``qa``.
    """

    text: str = ""
    leads: bool = True
    questions: list[tuple[str, str]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


def read_words(path: Path = WORDS) -> dict[str, list[str]]:
    """Return the word lists: name -> members, a noun with an irregular plural as ``singular/plural``."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    lists: dict[str, list[str]] = {}
    for block in "\n".join(lines).split("\n\n"):
        name, colon, members = block.partition(":")
        if colon:
            lists[name.strip()] = [member.strip() for member in members.replace("\n", " ").split(",")]
    return lists


def read_frames(path: Path = FRAMES) -> dict[str, tuple[list[str], list[Frame]]]:
    """Return the frames: theme -> (names of the slots that a paragraph shares, frames)."""
    themes: dict[str, tuple[list[str], list[Frame]]] = {}
    frames: list[Frame] = []
    for block in re.sub(r"(?m)^#.*\n", "", path.read_text(encoding="utf-8")).split("\n\n"):
        frame = Frame()
        for line in block.splitlines():
            mark, _, rest = line.partition(" ")
            if mark == "@":
                theme, _, shared = rest.partition("(")
                frames = []
                themes[theme.strip()] = (shared.rstrip(")").replace(",", " ").split(), frames)
            elif mark == "?":
                answer, _, question = rest.partition(" | ")
                frame.questions.append((answer, question))
            elif mark in ("=", "!"):
                (frame.summaries if mark == "=" else frame.answers).append(rest)
            else:
                frame.leads = mark != "+"
                frame.text = rest if mark == "+" else line
        if frame.questions:
            frames.append(frame)
    return themes


def plural(noun: str) -> str:
    """Return the plural of a noun of the word lists."""
    singular, slash, other = noun.partition("/")
    if slash:
        return other
    return f"{singular[:-1]}ies" if re.search(r"[^aeiou]y$", singular) else f"{singular}s"


def _verb(forms: str, form: str) -> str:
    """Return one form of a verb of the word lists, such as ``take/took/taken`` or ``dry/dried``."""
    base, past, *participle = forms.split("/")
    if form == "does":
        verb, space, particle = base.partition(" ")
        ending = "es" if re.search(r"(s|sh|ch|x|o)$", verb) else "s"
        return (f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else verb + ending) + space + particle
    return {"do": base, "did": past, "done": (participle or [past])[0]}[form]


def capitalize(text: str) -> str:
    """Return ``text`` with a capital at the start of each sentence."""
    return re.sub(r"(^|[.!?]\"? )([a-z])", lambda match: match[1] + match[2].upper(), text)


class _Scene:
    """One document: its people, and the words that fill its slots."""

    def __init__(self, rng: random.Random, words: dict[str, list[str]]) -> None:
        self.rng = rng
        self.words = words
        self.bound: dict[str, str] = {}
        self.shared: set[str] = set()
        self.person = self._person()
        self.introduced = False
        self.other = self._person()

    def _invented(self) -> str:
        """Return an invented name, which a model can only copy."""
        parts = [
            self.rng.choice(self.words["onset"]) + self.rng.choice(self.words["vowel"])
            for _ in range(self.rng.choice([1, 2, 2]))
        ]
        return ("".join(parts) + self.rng.choice(self.words["coda"])).capitalize()

    def _person(self) -> tuple[str, str, str]:
        gender = self.rng.choice(["girl", "boy"])
        first = self._invented() if self.rng.random() < 0.3 else self.rng.choice(self.words[gender])
        return gender, first, self._invented() if self.rng.random() < 0.5 else self.rng.choice(self.words["surname"])

    def next_frame(self) -> None:
        """Forget the words of slots that the frames of a paragraph do not share."""
        self.bound = {slot: word for slot, word in self.bound.items() if slot in self.shared}
        self.other = self._person()

    def _number(self) -> str:
        kind = self.rng.random()
        if kind < 0.3:
            return self.rng.choice(_ONES)
        if kind < 0.5:
            return self.rng.choice(_TEENS)
        if kind < 0.8:
            return self.rng.choice(_TENS) + self.rng.choice(["", "-one", *(f"-{one}" for one in _ONES)])
        if kind < 0.9:
            return self.rng.choice(["a hundred", "two hundred", "three hundred", "a thousand", "two thousand"])
        return str(self.rng.randrange(100, 1000))

    def _draw(self, name: str) -> str:
        if name == "num":
            return self._number()
        if name == "year":
            return str(self.rng.randrange(1820, 2020))
        if name == "clock":
            return f"{self.rng.randrange(1, 13)}:{self.rng.randrange(0, 60, 5):02d}"
        if name == "town" and self.rng.random() < 0.4:
            return self._invented()
        if name == "town":
            return self.rng.choice(self.words["town_head"]) + self.rng.choice(self.words["town_tail"])
        return self.rng.choice(self.words[name])

    def _word(self, name: str, number: str) -> str:
        """Return the word of a slot, drawn at its first use; no two slots have the same word."""
        slot = name + number
        while slot not in self.bound:
            word = self._draw(name)
            if word not in self.bound.values():
                self.bound[slot] = word
        return self.bound[slot]

    def _name(self, subject: bool, in_text: bool) -> str:
        gender, first, last = self.person
        if in_text and not self.introduced:
            self.introduced = True
            return f"{first} {last}"
        if subject and in_text:
            return self.rng.choice([first, _PRONOUNS[gender]["she"]])
        return self.rng.choice([first, first, f"{first} {last}"])

    def fill(self, template: str, in_text: bool = False) -> str:
        """Return ``template`` with one of each alternative and a word in each slot.

        Args:
            template: as in `frames.txt`.
            in_text: this is the paragraph itself, where a person may become a pronoun.
        """
        person = self.other if "{Full}" in template else self.person
        text = _CHOICE.sub(lambda match: self.rng.choice(match[1].split("|")), template)

        def slot(match: re.Match[str]) -> str:
            article, name, number = match.groups()
            if name in ("who", "Who"):
                return self._name(name == "Who", in_text)
            if name == "Full":
                return f"{self.other[1]} {self.other[2]}"
            if name in _PRONOUNS["girl"]:
                return _PRONOUNS[person[0]][name]
            if name in _FORMS:
                return _verb(self._word("verb", number), name)
            if name not in self.words and name.removesuffix("s") in self.words:
                return plural(self._word(name.removesuffix("s"), number))
            word = self.fill(self._word(name, number).partition("/")[0])
            return f"{'an' if word[0] in 'aeiou' else 'a'} {word}" if article else word

        return capitalize(_SLOT.sub(slot, text)) if in_text else _SLOT.sub(slot, text)


def make_document(
    rng: random.Random, words: dict[str, list[str]], themes: dict[str, tuple[list[str], list[Frame]]]
) -> Document:
    """Return one document in one of the formats of the task `nnd_demo`.

    Args:
        rng: makes the choices.
        words: from `read_words`.
        themes: from `read_frames`.
    """
    scene = _Scene(rng, words)
    if rng.random() < QUESTIONS_ALONE:
        frame = rng.choice(themes["qa"][1])
        question = capitalize(scene.fill(frame.questions[0][1]))
        return [(f"Question: {question}\nAnswer:", f" {capitalize(scene.fill(rng.choice(frame.answers)))}")]
    shared, frames = themes[rng.choice([theme for theme in themes if theme != "qa"])]
    scene.shared = set(shared)
    lead = rng.choice([frame for frame in frames if frame.leads])
    chosen = [lead, *rng.sample([frame for frame in frames if frame is not lead], rng.randrange(1, 4))]
    sentences, tails = [], []
    for frame in chosen:
        scene.next_frame()
        sentences.append(scene.fill(frame.text, in_text=True))
        if frame is lead:  # a summary says what comes first
            tails.append(("Summary:", f" {capitalize(scene.fill(rng.choice(frame.summaries)))}"))
        answer, question = (scene.fill(part) for part in rng.choice(frame.questions))
        tails.append((f"Answer: {answer}\nQuestion:", f" {capitalize(question)}"))
    rng.shuffle(tails)
    paragraph = " ".join(sentences)
    return [(f"{'' if i else paragraph}\n\n{cue}", tail) for i, (cue, tail) in enumerate(tails[:TAILS])]


def make_documents(count: int, seed: int) -> Iterator[Document]:
    """Yield ``count`` documents, the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret here
    words, themes = read_words(), read_frames()
    for _ in range(count):
        yield make_document(rng, words, themes)

"""A spaCy pipeline by rules, with tags, lemmas and entities for a few words, and comparisons of texts."""

import spacy

#: Texts whose words the pipeline knows.
TEXTS = [
    "Anna went to the office in Boston. She talked about the dog, and the staff left. It was late.",
    "A song is a song. The house can wait! Did it rain on Monday? Nobody knows.",
    "He flew from Paris to Boston, of course. The day was long. The staff of the office had left.",
]
VERBS = {
    "went": ("VBD", "go"),
    "talked": ("VBD", "talk"),
    "flew": ("VBD", "fly"),
    "left": ("VBD", "leave"),
    "rained": ("VBD", "rain"),
    "knows": ("VBZ", "know"),
    "sing": ("VBP", "sing"),
}
AUXILIARIES = {
    "was": ("VBD", "be"),
    "is": ("VBZ", "be"),
    "can": ("MD", "can"),
    "ca": ("MD", "can"),
    "had": ("VBD", "have"),
    "'ve": ("VBP", "have"),
    "'d": ("VBD", "have"),
}
NOUNS = ("office", "staff", "dog", "song", "day", "house")
PREPOSITIONS = ("to", "in", "of", "from", "about")
ENTITIES = {"Boston": "GPE", "Paris": "GPE", "Anna": "PERSON", "Monday": "DATE", "Acme": "ORG"}


def tagged():
    """Return the pipeline."""
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("attribute_ruler")

    def add(word, tag, pos, lemma):
        ruler.add([[{"LOWER": word}]], {"TAG": tag, "POS": pos, "LEMMA": lemma})

    for word, (tag, lemma) in VERBS.items():
        add(word, tag, "VERB", lemma)
    for word, (tag, lemma) in AUXILIARIES.items():
        add(word, tag, "AUX", lemma)
    for word in NOUNS:
        add(word, "NN", "NOUN", word)
    for word in PREPOSITIONS:
        add(word, "IN", "ADP", word)
    entities = nlp.add_pipe("entity_ruler")
    entities.add_patterns([{"label": label, "pattern": name} for name, label in ENTITIES.items()])
    return nlp


def rough():
    """Return a pipeline that finds some verbs and names in any English text, by their endings and capital letters."""
    nlp = tagged()
    verbs = [[{"TEXT": {"REGEX": "^[a-z]{3,}ed$"}}]]
    nlp.get_pipe("attribute_ruler").add(verbs, {"TAG": "VBD", "POS": "VERB", "LEMMA": "go"})
    nlp.get_pipe("entity_ruler").add_patterns([{"label": "ORG", "pattern": [{"TEXT": {"REGEX": "^[A-Z][a-z]{3,}$"}}]}])
    return nlp


def is_within(short, long):
    """Tell whether ``short`` is what is left of ``long`` when parts of it are taken away."""
    rest = iter(long)
    return all(part in rest for part in short)


def split_into(text, sentences):
    """Return the sentences that a text is made of, the longest that fits at each place."""
    options = sorted(sentences, key=len, reverse=True)
    found = []
    while text:
        found.append(next(option for option in options if text.startswith(option)))
        text = text[len(found[-1]) :].strip()
    return found

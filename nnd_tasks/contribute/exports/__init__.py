"""A gallery of the files that people have: for each kind a module that becomes the `prepare.py` of a set, as it stands.

A module has `recognise(records)`, which names the fields that tell its kind, and `rows(folder)`, which returns a row per judged
text or pair, with the columns of the data and one for each judgement. Its docstring is shown to the user. `nnd new` fills in the
constants `FILES`, `SYSTEMS` and `RATERS`; `UTF16` says that positions of error spans count UTF-16 units. `recognise.py` asks
them, and `samples/` has made-up files of each kind.
"""

#: The kinds that are told by their records, the more special first.
KINDS = (
    "label_studio", "argilla", "prodigy", "doccano", "mturk", "qualtrics", "appraise", "mqm", "arena", "hh",
    "nested", "cell_raters", "one_based",
)  # fmt: skip

"""Random taggings and what seqeval says of them, for test_iob_tags.py.

    python make_seqeval.py seqeval.json

in an environment with seqeval (1.2.2). Each line of the file: tags meant
and tags predicted, a letter each, of sentences with a space between; precision,
recall and F1. Half of the taggings have the tags of IOB1 and IOB2 only; all
have them in any order, as models give them.
"""

import json
import random
import sys

from seqeval.metrics import f1_score, precision_score, recall_score

COUNT = 1000
KINDS = ("A", "B", "C")
TAGS = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in KINDS)]
LETTERS = "OabcdefABCDEF"  # of TAGS, in order


def main() -> None:
    rng = random.Random(7)
    lines = [scores(*tagging(rng, number)) for number in range(COUNT)]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        letters = json.dumps(dict(zip(LETTERS, TAGS, strict=True)))
        rows = ",\n".join(map(json.dumps, lines))
        file.write(f'{{"tags": {letters},\n"taggings": [\n{rows}\n]}}\n')


def tagging(rng: random.Random, number: int) -> tuple[str, str]:
    """What is meant; and a copy in which each tag is another in a third."""
    letters = LETTERS[: 7 if number % 2 else 13]
    sentences = [
        "".join(rng.choices(letters, k=rng.randint(1, 9)))
        for _ in range(rng.randint(1, 3))
    ]
    meant = " ".join(sentences)
    said = [
        rng.choice(letters) if c != " " and rng.random() < 0.3 else c
        for c in meant
    ]
    return meant, "".join(said)


def scores(meant: str, said: str) -> tuple[str, str, float, float, float]:
    tags = dict(zip(LETTERS, TAGS, strict=True))
    golds, predicted = (
        [[tags[c] for c in sentence] for sentence in text.split()]
        for text in (meant, said)
    )
    metrics = (precision_score, recall_score, f1_score)
    values = [float(m(golds, predicted, zero_division=0)) for m in metrics]
    return meant, said, values[0], values[1], values[2]


if __name__ == "__main__":
    main()

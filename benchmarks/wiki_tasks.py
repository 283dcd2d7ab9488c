"""Text to pre-train on, text of a domain, and tasks made from both.

    python benchmarks/wiki_tasks.py $TEXT /tmp/wiki

$TEXT has one paragraph a line and a blank line between articles. Articles about
sport, found by the words of their first lines, are the domain; a part of it,
and of the others, is held out. Writes general/ and sport/, each with train.txt
and held_out.txt, and tasks of classifying a paragraph, their dev sets from
articles held out: topic/ (what an article is about), which_sport/, and
which_sport_100/, the same with 100 examples to train on.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

SPORTS = {  # by words of an article's first lines
    "football": r"footballer|football (?:club|team|player)|soccer|striker|"
    r"midfielder|goalkeeper|premier league|fifa|uefa",
    "ball": r"baseball|pitcher|shortstop|outfielder|basketball|\bnba\b|"
    r"american football|quarterback|\bnfl\b|linebacker|wide receiver",
    "bat": r"cricket|wicket|batsman|\brugby",
    "racing": r"\bracing|formula one|nascar|grand prix|race (?:car )?driver|"
    r"cyclist|cycling",
    "games": r"olympic|athlete|swimmer|sprinter|wrestl|boxer|boxing|golf|"
    r"chess|gymnast|skater|skier|tennis|hockey|\bnhl\b",
}
TOPICS = {
    "music": r"\balbum|\bsinger|\bsongs?\b|\bband\b|composer|orchestra|opera",
    "film": r"\bfilms?\b|television|\bactor|\bactress|\bsitcom|\bepisode",
    "nature": r"\bspecies\b|\bgenus\b|\bplant\b|\bfamily of\b|orchid|\bbird",
    "place": r"\bvillage\b|\btown\b|municipality|\bcity in\b|\briver\b|census",
    "politics": r"politician|\bparliament|\bminister|election|\bparty\b|senat",
    "religion": r"church|bishop|\bsaint\b|catholic|temple|buddhis|\bislam",
}
LEAD = 500  # characters of an article that say what it is about
MIN_PARAGRAPH = 150  # characters
PER_ARTICLE = 6  # examples, so that no article is most of a task
HELD_OUT = {"general": 12, "sport": 4}  # one article in so many


def class_of(article: str, classes: dict[str, str]) -> str | None:
    """The one class that most words of an article's beginning are of."""
    lead = article[:LEAD].lower()
    counts = {name: len(re.findall(p, lead)) for name, p in classes.items()}
    (first, most), (_, next_most) = Counter(counts).most_common(2)
    return first if most >= 2 and most > 2 * next_most else None


def write_task(
    folder: Path,
    parts: Mapping[str, Sequence[str]],
    classes: dict[str, str],
    rng: random.Random,
    num_train: int | None = None,
) -> None:
    """Paragraphs, none of them an article's first, with the article's class."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, articles in parts.items():
        rows = []
        for article in articles:
            label = class_of(article, classes)
            if label is None:
                continue
            paragraphs = [
                " ".join(p.split())
                for p in article.split("\n")[1:]
                if len(p) >= MIN_PARAGRAPH
            ]
            for text in paragraphs[:PER_ARTICLE]:
                rows.append(f"{text}\t{label}")
        rng.shuffle(rows)
        if part == "train":
            rows = rows[:num_train]
        text = "\n".join(["sentence\tlabel", *rows]) + "\n"
        (folder / f"{part}.tsv").write_text(text, "utf-8")
        print(f"{folder.name}/{part}.tsv: {len(rows):,} paragraphs")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text_file", type=Path)
    parser.add_argument("output_dir", type=Path)
    args = parser.parse_args()
    articles = args.text_file.read_text("utf-8").strip().split("\n\n")
    rng = random.Random(12345)
    rng.shuffle(articles)
    words = re.compile("|".join(SPORTS.values()))
    about: dict[str, list[str]] = {"general": [], "sport": []}
    for article in articles:
        is_sport = len(words.findall(article[:LEAD].lower())) >= 2
        about["sport" if is_sport else "general"].append(article)
    split = {}
    for domain, texts in about.items():
        every = HELD_OUT[domain]
        parts = {
            "train": [t for i, t in enumerate(texts) if i % every],
            "held_out": texts[::every],
        }
        split[domain] = parts
        folder = args.output_dir / domain
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in parts.items():
            text = "\n\n".join(part) + "\n"
            (folder / f"{name}.txt").write_text(text, "utf-8")
            size = len(text.encode()) / 1e6
            print(f"{domain}/{name}.txt: {len(part):,} articles, {size:.2f} MB")
    for task, domain, classes, num_train in (
        ("topic", "general", TOPICS, None),
        ("which_sport", "sport", SPORTS, None),
        ("which_sport_100", "sport", SPORTS, 100),
    ):
        parts = {
            "train": split[domain]["train"],
            "dev": split[domain]["held_out"],
        }
        write_task(args.output_dir / task, parts, classes, rng, num_train)


if __name__ == "__main__":
    main()

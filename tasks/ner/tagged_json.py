"""Files of tagged words as JSON: a sentence an object, as the hub's data sets.

    {"tokens": ["Peter", "lives"], "ner_tags": ["B-PER", "O"]}

One object a line, or a list of them. Tags are texts, or numbers whose names are
in a dataset_info.json beside the file, as the datasets library writes it. An
object with the word -DOCSTART- alone begins a document.
"""

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from bert_keras.data.text_files import without_half_characters
from bert_keras.errors import InputError
from bert_keras.files import content
from bert_keras.tasks.ner.conll import DOCUMENT, Sentence, TaggedFile
from bert_keras.tasks.ner.iob_tags import TAG
from bert_keras.tasks.tables import read_objects

WORDS, TAGS = "tokens", "ner_tags"  # the hub's names of fields
ENDINGS = (".json", ".jsonl")
INFO = "dataset_info.json"
PREDICTED = "predicted_tags"


def is_json(path: str) -> bool:
    return path.removesuffix(".gz").endswith(ENDINGS)


def read_tagged_json(
    path: str, word_field: str | None = None, tag_field: str | None = None
) -> TaggedFile:
    """Reads a file, which may also be packed as .gz.

    Args:
        word_field, tag_field: None: the hub's names. A file in which no object
            has the field of the tags has words alone.

    Raises:
        InputError: it holds no sentence, or an object that is not one.
    """
    word_field, tag_field = word_field or WORDS, tag_field or TAGS
    objects = list(read_objects(path))
    names = _read_names(path, tag_field)
    has_tags = any(tag_field in found.values for found in objects)
    sentences = []
    document = -1
    for found in objects:
        place, row = found.place, found.values
        words = _read_words(place, row, word_field)
        if words == [DOCUMENT]:
            document += 1
        elif words:
            tags = _read_tags(place, row, tag_field, names) if has_tags else []
            if has_tags and len(tags) != len(words):
                raise InputError(
                    f"{place} has {len(words)} words but {len(tags)} tags"
                )
            lines = [found.number - 1] * len(words)
            sentences.append(Sentence(words, tags, lines, document))
    if not sentences:
        raise InputError(f"{path} holds no sentence")
    texts = [""] * objects[-1].number
    for found in objects:
        texts[found.number - 1] = json.dumps(found.values)
    fields = ", ".join(map(repr, objects[0].values))
    tags_in = f"tags in {tag_field!r}" if has_tags else "no tags"
    layout = f"words in {word_field!r}, {tags_in}, of the fields {fields}"
    return TaggedFile(path, texts, sentences, layout, {}, objects[0].unit)


def _read_words(place: str, row: dict[str, Any], field: str) -> list[str]:
    words = _field(place, row, field, "word_column")
    if not all(isinstance(word, str) for word in words):
        raise InputError(f"{place} has words in {field!r} that are not texts")
    return [without_half_characters(word) for word in words]


def _read_tags(
    place: str, row: dict[str, Any], field: str, names: Sequence[str]
) -> list[str]:
    tags = _field(place, row, field, "tag_column")
    if any(type(tag) is int for tag in tags):
        tags = [_name(place, field, number, names) for number in tags]
    for tag in tags:
        if not isinstance(tag, str) or not TAG.fullmatch(tag):
            raise InputError(
                f"{place} has {tag!r} in {field!r}; expected a tag, O or one "
                "like B-PER and I-PER (`tag_column` names another field)"
            )
    return list(tags)


def _field(
    place: str, row: dict[str, Any], field: str, argument: str
) -> Sequence[Any]:
    values = row.get(field)
    if not isinstance(values, list):
        raise InputError(
            f"{place} has no list in the field {field!r}; its fields are "
            f"{', '.join(map(repr, row))}; name the right one by `{argument}`"
        )
    return values


def _name(place: str, field: str, number: Any, names: Sequence[str]) -> str:
    if not names:
        raise InputError(
            f"{place} has numbers in {field!r} without the names of their "
            f"tags: put the {INFO} of the data set, which lists them, beside "
            "the file, or write the tags as texts (with the datasets library: "
            f"features[{field!r}].feature.int2str)"
        )
    if type(number) is not int or not 0 <= number < len(names):
        raise InputError(
            f"{place} has {number!r} in {field!r}; {INFO} names the tags 0 to "
            f"{len(names) - 1}"
        )
    return names[number]


def _read_names(path: str, field: str) -> list[str]:
    """The names of tags that are numbers; empty where they are not known."""
    info = os.path.join(os.path.dirname(path), INFO)
    text = content(info)
    if text is None:
        return []
    try:
        features = json.loads(text.decode())["features"]
        names = features[field]["feature"]["names"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def with_field(file: TaggedFile, predicted: Iterable[Sequence[str]]) -> str:
    """The objects with the predicted tags, in the file's scheme, as one more
    field."""
    objects = {
        number: {**json.loads(line), PREDICTED: []}
        for number, line in enumerate(file.lines)
        if line
    }
    for sentence, tags in zip(
        file.sentences, file.in_own_scheme(predicted), strict=True
    ):
        objects[sentence.lines[0]][PREDICTED] = tags
    return "".join(f"{json.dumps(row)}\n" for row in objects.values())

"""Labelled texts and pairs: read from your own tables, and as model inputs.

Upstream file: run_classifier.py, InputExample and convert_single_example;
google-research/bert asks for a processor class for each data set.
"""

import ast
import contextlib
import dataclasses
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_keras.data.input_features import (
    InputFeatures,
    describe_lengths,
    make_features,
    windows,
)
from bert_keras.data.text_files import without_half_characters
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, warn, with_flags
from bert_keras.files import parse_json
from bert_keras.tasks.label_names import class_key, to_number
from bert_keras.tasks.tables import Row, header_names, read_rows, warn_of_header
from bert_keras.training.inference import with_progress

Label = str | tuple[str, ...] | None  # several, as a JSON list has them
# A flat list of strings as Python writes it, and each of these.
_STRING = r"""(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
PYTHON_STRING = re.compile(_STRING, re.DOTALL)
PYTHON_LIST = re.compile(
    rf"\[\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*)?\]", re.DOTALL
)


class InputExample(NamedTuple):
    guid: str  # where it comes from, for people
    text_a: str
    text_b: str | None
    label: Label  # None: not known


@dataclasses.dataclass(frozen=True)
class TableFormat:
    """Columns by their names in the header, by their numbers from 0 in a file
    without header, or by the keys of a JSON object."""

    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    has_header: bool = True
    separator: str | None = None  # None: by the ending, or by the header
    encoding: str | None = None  # None: by a byte-order mark, else UTF-8

    def __post_init__(self) -> None:
        if self.separator in ("tab", "\\t"):
            object.__setattr__(self, "separator", "\t")
        elif self.separator is not None and (
            len(self.separator) != 1 or self.separator in '"\r\n'
        ):
            raise InputError(
                f"`separator` is {self.separator!r}; expected one character, "
                "or tab"
            )

    def with_header_read(self) -> "TableFormat":
        """Without the separator of another table, where a header shows it."""
        separator = None if self.has_header else self.separator
        return dataclasses.replace(self, separator=separator)

    @property
    def text_columns(self) -> list[str]:
        pair = self.text_pair_column
        return [self.text_column, *([] if pair is None else [pair])]


def read_table(
    path: str, table: TableFormat, has_labels: bool
) -> list[InputExample]:
    """Reads a file whose ending says what it is; each row is an example.

    Args:
        has_labels: whether the label column has to be there.

    Raises:
        InputError: no such file, or a row that does not fit the format.
    """
    rows = table_rows(path, table, has_labels)
    return to_examples((row.by_name() for row in rows), table, has_labels)


def table_rows(
    path: str, table: TableFormat, has_labels: bool
) -> Iterator[Row]:
    """Yields the rows of `read_table`, with all their columns."""
    row = None
    for row in read_rows(
        path,
        wanted=[*table.text_columns, *([table.label_column] * has_labels)],
        has_header=table.has_header,
        separator=table.separator,
        encoding=table.encoding,
    ):
        yield row
    if row is None:
        raise InputError(f"{path} holds no example")


def to_examples(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    table: TableFormat,
    has_labels: bool,
) -> list[InputExample]:
    """Makes examples of rows: each its place, for errors, and its columns.

    Lists of 0 and 1 as labels are refused if they tell of each label whether it
    is there: a list has one of them twice, or every label is a list of both.
    """

    def text(place: str, column: str, value: Any) -> str:
        if value is None or value != value:  # null and NaN
            return ""
        if not isinstance(value, str | int | float):
            kinds: dict[type, str] = {list: "a list", dict: "an object"}
            kind = kinds.get(type(value), f"a {type(value).__name__}")
            raise InputError(
                f"{place} has {kind} in {column!r}, where a text was expected"
            )
        value = value if isinstance(value, str) else json.dumps(value)
        return without_half_characters(value).strip()

    if has_labels and table.label_column in table.text_columns:
        raise InputError(
            f"the column {table.label_column!r} is both text and label; change "
            "`text_column`, `text_pair_column` or `label_column`"
        )
    examples = []
    are_both: set[bool] = set()  # whether a label is [0, 1] or [1, 0]
    for place, row in rows:
        first, *rest = (text(place, x, row[x]) for x in table.text_columns)
        label: Label = None
        if has_labels:
            column = table.label_column
            value = row[column]
            label = (
                tuple(text(place, column, part) for part in value)
                if isinstance(value, list)
                else text(place, column, value)
            )
            is_binary = isinstance(value, list) and {*value} <= {0, 1}
            if is_binary and len({*value}) < len(value):
                raise _multi_hot(place, label)
            if label != "":
                are_both.add(is_binary and len(label) == 2)
        examples.append(
            InputExample(place, first, rest[0] if rest else None, label)
        )
    if are_both == {True}:
        raise next(_multi_hot(x.guid, x.label) for x in examples if x.label)
    return examples


def _multi_hot(place: str, label: Label) -> InputError:
    return InputError(
        f"{place} has the labels {', '.join(label or ())}, a 0 or 1 for each "
        "label; expected the names of its labels, in quotes if they are 0 and "
        '1: ["0", "1"]'
    )


def names_text_columns(path: str, table: TableFormat) -> bool:
    """Whether a TSV file has a header with the columns of the texts. Warns
    where it has not, but its first line looks like a header."""
    wanted = table.text_columns if table.has_header else ()
    names = header_names(path, table.separator, table.encoding, wanted)
    if table.has_header and {*table.text_columns} <= {*names}:
        return True
    warn_of_header(path, names, "give `text_column`")
    return False


def labels_of(
    examples: Iterable[InputExample], separator: str | None = None
) -> tuple[str, ...]:
    """All labels: numbers first, in their order, then the others in theirs.
    Spellings of one whole number become one label, and a line says so.

    Args:
        separator: between several labels of one example; None: one each.
    """
    labels: set[str] = set()
    for example in examples:
        label = example.label
        if separator is None:
            names = [label] if isinstance(label, str) else [*(label or ())]
        else:
            try:
                names = split_labels(label, separator)
            except InputError as error:
                raise InputError(f"{example.guid}: {error}") from error
        labels.update(map(str.strip, names))
    spellings: dict[str, list[str]] = {}
    for label in sorted(labels - {""}, key=lambda label: (len(label), label)):
        spellings.setdefault(class_key(label), []).append(label)
    for first, *others in spellings.values():
        if others:
            print(
                f"the labels {', '.join([first, *others])} are the same number "
                f"and become one class, {first}",
                file=sys.stderr,
            )
    firsts = [first for first, *_ in spellings.values()]
    alike: dict[str, str] = {}
    for label in firsts:
        other = alike.setdefault(_as_read(label).casefold(), label)
        if other != label:
            both = f"{other!r} and {label!r}"
            if _as_read(other) == _as_read(label):
                both = f"{other!a} and {label!a}"
            warn(
                f"the labels {both} are two classes and look alike; if they "
                "are one, write them alike"
            )
    return tuple(sorted(firsts, key=_natural))


def _as_read(label: str) -> str:
    """The label without what cannot be seen: more than one space between words,
    invisible characters, and how accents are written."""
    seen = "".join(x for x in label if unicodedata.category(x) != "Cf")
    return unicodedata.normalize("NFC", " ".join(seen.split()))


def split_labels(label: Label, separator: str) -> list[str]:
    """The names of an example's labels: those of a list, which may also be
    written in a text, as JSON or as pandas does; else of a text's parts.

    >>> split_labels("['sea, cold', 'red']", ",")
    ['sea, cold', 'red']
    """
    if not isinstance(label, str):
        names = [*(label or ())]
    elif (text := label.strip()).startswith("[") and text.endswith("]"):
        names = _listed(text)
    else:
        names = label.split(separator)
    return [name for name in map(str.strip, names) if name]


def _listed(text: str) -> list[str]:
    with contextlib.suppress(ValueError):
        names = parse_json(text)
        if all(isinstance(name, str) for name in names):
            return [*map(without_half_characters, names)]
    if PYTHON_LIST.fullmatch(text):
        with contextlib.suppress(ValueError, SyntaxError):
            strings = map(ast.literal_eval, PYTHON_STRING.findall(text))
            return [*map(without_half_characters, strings)]
    raise InputError(
        f"the label {text!r:.80} is not a list of names; expected one, such as "
        '["a", "b"], or names with `label_separator` between'
    )


def are_measures(labels: Sequence[str], num_examples: int) -> bool:
    """Whether they look like measured numbers rather than classes: more than
    ten that are not all whole, or hardly two examples for each."""
    keys = [_natural(label) for label in labels]
    if len(labels) <= 10 or any(is_word for is_word, *_ in keys):
        return False
    are_whole = all(number.is_integer() for _, number, _ in keys)
    return not are_whole or len(labels) > num_examples / 2


def _natural(label: str) -> tuple[bool, float, str]:
    """Sorts words behind numbers."""
    number = to_number(label)
    return number is None, number or 0.0, label


def encode_examples(
    examples: Sequence[InputExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> list[list[InputFeatures]]:
    """The rows of each example: one, or the windows of a long text.

    Without a stride, what is too long is cut, and with one so is the first
    text of a pair where it leaves no room. Lengths in tokens, [CLS] and [SEP]
    included, and the number of texts that were cut go to standard error.

    Args:
        doc_stride: tokens between the beginnings of two windows; of a pair the
            second text is cut into windows.
    """
    encoded = [
        encode_example(example, tokenizer, max_seq_length, doc_stride)
        for example in with_progress(
            examples, len(examples), " texts", "tokens"
        )
    ]
    if encoded:
        num_cut = sum(is_cut for _, is_cut, _ in encoded)
        lengths = [length for *_, length in encoded]
        text = (
            f"{len(lengths):,} texts of {describe_lengths(lengths)}; {num_cut} "
            f"of {len(lengths)} were cut to `max_seq_length={max_seq_length}`"
        )
        print(with_flags(text), file=sys.stderr)
    return [rows for rows, *_ in encoded]


def encode_example(
    example: InputExample,
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
    enough: int | None = None,
) -> tuple[list[InputFeatures], bool, int]:
    """An example's rows, whether it was cut, and its length in tokens uncut,
    or `enough` of each text at least.

    Windows together show all of the last text: of 7 tokens with room for 4 and
    a stride of 2 they are 0-3, 2-5 and 4-6. The first text of a pair keeps
    half of the room, or what the second leaves of it.
    """
    first = tokenizer.tokenize(example.text_a, enough)
    # As upstream, a second text without tokens is none.
    second = tokenizer.tokenize(example.text_b or "", enough) or None
    num_special = tokenizer.special_tokens.count(second is not None)
    room = max_seq_length - num_special
    length = len(first) + len(second or ()) + num_special
    pairs = [(first, second)]
    is_cut = length > max_seq_length
    if is_cut and doc_stride is not None:
        if second is None:
            spans = windows(len(first), room, doc_stride)
            pairs = [(first[span.start : span.stop], None) for span in spans]
            is_cut = False
        else:
            shown = first[: max(room // 2, room - len(second))]
            spans = windows(len(second), room - len(shown), doc_stride)
            pairs = [(shown, second[span.start : span.stop]) for span in spans]
            is_cut = len(shown) < len(first)
    rows = [make_features(*pair, max_seq_length, tokenizer) for pair in pairs]
    return rows, is_cut, length

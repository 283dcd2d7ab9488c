"""Files of JSON objects: one a line, an array of them, or one over many lines.

Which of these a file is shows in its first line that is not empty.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bert_keras.data.text_files import read_text_lines
from bert_keras.errors import InputError


class JsonObject(NamedTuple):
    path: str
    unit: str  # "line", or "entry" of an array
    number: int  # of the line or entry, from 1
    values: dict[str, Any]

    @property
    def place(self) -> str:
        return f"{self.path}, {self.unit} {self.number}"


def read_objects(
    path: str, encoding: str | None = None
) -> Iterator[JsonObject]:
    """Yields the objects of a file, plain or .gz.

    Raises:
        InputError: it cannot be read, is not JSON or has something else.
    """
    return parse_objects(path, read_text_lines(path, encoding))


def parse_objects(path: str, lines: Iterable[str]) -> Iterator[JsonObject]:
    """Yields the objects of a file's lines, each with its end."""
    rest = iter(lines)
    begin, head = next(
        ((i, x) for i, x in enumerate(rest, 1) if x.strip()), (1, "")
    )
    first = []  # the value of the first line, if it is one
    if not head.lstrip().startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            first = [json.loads(head)]
    if first:
        yield _checked(path, "line", begin, first[0])
        for number, line in enumerate(rest, begin + 1):
            if line.strip():
                value = _parse(path, number, line)
                yield _checked(path, "line", number, value)
        return
    text = head + "".join(rest)
    if not text:
        return
    values = _parse(path, begin, text)
    values = values if isinstance(values, list) else [values]
    for number, value in enumerate(values, 1):
        yield _checked(path, "entry", number, value)


def _parse(path: str, first_line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place, reason = path, str(error)
        if isinstance(error, json.JSONDecodeError):
            line = first_line + error.lineno - 1
            place += f", line {line}, column {error.colno}"
            reason = error.msg
        raise InputError(
            f"{place} is not JSON ({reason}); expected an object a line, or an "
            "array of objects"
        ) from error


def _checked(path: str, unit: str, number: int, value: Any) -> JsonObject:
    if not isinstance(value, dict):
        shown = "a list" if isinstance(value, list) else json.dumps(value)
        raise InputError(
            f"{path}, {unit} {number} is not a JSON object but {shown[:60]}"
        )
    return JsonObject(path, unit, number, value)

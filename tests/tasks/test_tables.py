"""Files of JSON objects: a line each, in an array, or one over many lines."""

import gzip
from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.tables import read_objects, read_rows


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"n": 1}\n\n{"n": 2}\n', ["line 1", "line 3"]),
        ('\n[{"n": 1},\n {"n": 2}]\n', ["entry 1", "entry 2"]),
        ('{"n":\n 1}\n', ["entry 1"]),
        ('\ufeff{"n": 1}', ["line 1"]),
        ("", []),
        ("\n[]\n", []),
    ],
)
def test_the_first_line_shows_the_form(
    tmp_path: Path, text: str, places: list[str]
) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    found = list(read_objects(str(path)))
    assert [x.place for x in found] == [f"{path}, {place}" for place in places]
    assert [x.values for x in found] == [
        {"n": i + 1} for i in range(len(places))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n{"n": 1}\n{"n" 2}', "line 3, column 6 is not JSON"),
        ('\n\n[{"n": 1},\n{"n" 2}]', "line 4, column 6 is not JSON"),
        ('{"n": 1}\n[[]]', "line 2 is not a JSON object but a list"),
        ('[{"n": 1}, "x"]', 'entry 2 is not a JSON object but "x"'),
        ("[" * 100_000, "a.json is not JSON"),
    ],
)
def test_an_error_names_the_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_objects(str(path)))


def test_a_header_inside_a_table_is_no_row(tmp_path: Path) -> None:
    """As in files that were put together."""
    path = tmp_path / "a.csv"
    path.write_text("text,label\nthe sea,1\ntext,label\na storm,0\n")
    with pytest.raises(InputError, match="line 3 is the header once more"):
        list(read_rows(str(path)))
    assert len([*read_rows(str(path), has_header=False)]) == 4

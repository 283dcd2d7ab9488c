"""Whatever a file holds, its reader gives a right value or an InputError.

First any bytes, of the targets in hostile.py; then what such cases have found,
one by one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings

from bert_keras.data import (
    inspect_records,
    text_files,
    tfrecords,
    validate_records,
    vocabulary,
)
from bert_keras.data.record_schema import Feature
from bert_keras.data.tokenizer_folder import open_tokenizer
from bert_keras.errors import MAX_SENTENCE, InputError, one_line
from bert_keras.modeling import hugging_face
from bert_keras.modeling.checkpoint import open_weights
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification import data as classification_data
from bert_keras.tasks.squad import data as squad_data
from bert_keras.tasks.task_config import TASK, TaskConfig
from tests import hostile
from tests.hostile import TARGETS, Target

NUM_CASES = 50  # benchmarks/fuzz.py tries as many as there is time for
DEEP = "[" * 900 + "]" * 900  # that json.loads reads
DEEPER = "[" * 100_000
NAN = "NaN is not a number in JSON: line 1 column 1"
SPAN = (
    TaskConfig("span", 9, True, doc_stride=333).to_json().replace("333", "null")
)
HALF = "a\ud800b"  # half of a sign that takes two


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_any_bytes(target: Target) -> None:
    @settings(
        max_examples=NUM_CASES,
        deadline=None,
        database=None,
        derandomize=True,  # the same cases in each run of the suite
        suppress_health_check=list(HealthCheck),
    )
    @given(target.cases)
    def try_case(case: Any) -> None:
        target.read(case)

    try_case()


@pytest.mark.parametrize("length", [2**29, 2**40, 2**62, 2**64 - 8])
def test_a_record_of_any_length_is_not_believed(
    tmp_path: Path, length: int
) -> None:
    """TensorFlow's reader ends the process at 2 ** 40."""
    path = tmp_path / "x.tfrecord"
    path.write_bytes(hostile.with_huge_length(length))
    read = tfrecords.read_records(str(path))
    assert [next(read), next(read)] == [b"", b"the second"]
    with pytest.raises(InputError, match="x.tfrecord, record 3 cannot be"):
        next(read)


def test_records_come_back_out_of_their_frames(tmp_path: Path) -> None:
    written = [b"", b"one", bytes(1000)]
    path = str(tmp_path / "x")
    with tf.io.TFRecordWriter(path) as writer:
        for record in written:
            writer.write(record)
    content = Path(path).read_bytes()
    assert content == tfrecords.frame(written)
    assert list(tfrecords.read_records(path)) == written
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        Path(path).write_bytes(flipped)
        with pytest.raises(InputError, match="cannot be read"):
            list(tfrecords.read_records(path))
        if place > 60:  # the rest is zeros
            break


def test_a_number_past_int32_is_not_another_one(tmp_path: Path) -> None:
    """2 ** 32 + 5 as int32 would be 5, a good id."""
    example = tf.train.Example()
    example.features.feature["x"].int64_list.value.extend([2**32 + 5, -(2**40)])
    parsed = tfrecords.parse_batch(
        [Feature("x", 2)], tf.constant([example.SerializeToString()])
    )
    assert parsed["x"].numpy().tolist() == [[2**31 - 1, -(2**31)]]


def test_a_record_that_is_no_example_and_no_text(tmp_path: Path) -> None:
    """TensorFlow's message quotes it, and is then no UTF-8."""
    path = tmp_path / "x"
    path.write_bytes(tfrecords.frame([b"\xf5"]))
    with pytest.raises(InputError, match="record 1: this is not a tf.train"):
        next(inspect_records.read_batches([str(path)], hostile.FEATURES, 11))
    assert validate_records.find_damage([str(path)], hostile.FEATURES)


def test_records_with_nothing_in_them(tmp_path: Path) -> None:
    example = tf.train.Example()
    example.features.feature["input_ids"].int64_list.value.append(1)
    example.features.feature["label_ids"].int64_list.SetInParent()
    path = tmp_path / "x"
    path.write_bytes(tfrecords.frame([example.SerializeToString()]))
    with pytest.raises(InputError, match="of no kind that is known"):
        inspect_records.find_table([str(path)])


def read_config(path: Path) -> object:
    return BertConfig.from_json_file(str(path))


def read_squad(path: Path) -> object:
    return squad_data.read_examples(str(path), False, True)


def read_table(path: Path) -> object:
    table = classification_data.TableFormat("text", None, "label", True)
    return classification_data.read_table(str(path), table, False)


def read_task(path: Path) -> object:
    return TaskConfig.from_folder(str(path.parent))


def read_weights(path: Path) -> object:
    return open_weights(str(path))


def read_pointer(path: Path) -> object:
    return open_weights(str(path.parent))


def read_tokenizer(path: Path) -> object:
    return open_tokenizer(str(path.parent))


@pytest.mark.parametrize(
    ("read", "name", "text", "message"),
    [
        (read_config, "x.json", DEEPER, "is not a JSON file"),
        (read_config, "x.json", '{"vocab_size": NaN}', NAN),
        (
            read_squad,
            "x.json",
            '{"data": NaN}',
            "line 1, column 10 is not JSON",
        ),
        (read_table, "x.jsonl", '{"a": NaN}', "line 1, column 7 is not"),
        (read_task, TASK, '{"labels": NaN}', NAN),
        (read_task, TASK, SPAN, "doc_stride is None; a model that finds spans"),
        (read_weights, hugging_face.INDEX, '{"weight_map": NaN}', NAN),
        (
            read_tokenizer,
            "tokenizer.json",
            '{"model": Infinity}',
            "Infinity is",
        ),
        (read_config, "x.json", '{"vocab_size": 1e999}', "vocab_size = inf"),
        (read_config, "x.json", f'{{"vocab_size": {2**31}}}', "below 2..31"),
        (
            read_config,
            "x.json",
            '{"vocab_size": 9, "num_hidden_layers": 1001}',
            "at most 1000",
        ),
        (read_squad, "x.json", DEEPER, "is not JSON"),
        (read_squad, "x.json", '{"data": ' + "1" * 5000 + "}", "is not JSON"),
        (read_table, "x.jsonl", f'{{"text": {DEEP}}}', "line 1 has a list in"),
        (read_table, "x.jsonl", DEEPER, "x.jsonl is not JSON"),
        (read_task, TASK, DEEPER, "task.json cannot be used"),
        (read_pointer, "checkpoint", "", "checkpoint, which should name"),
        (read_pointer, "checkpoint", "\ud800", "checkpoint, which should name"),
        (read_weights, hugging_face.INDEX, DEEPER, "cannot be read"),
        (read_weights, hugging_face.INDEX, '{"weight_map": {}}', "no file"),
        (read_tokenizer, "tokenizer.json", DEEPER, "is not a JSON file"),
    ],
)
def test_json_of_any_depth_and_size(
    tmp_path: Path,
    read: Callable[[Path], object],
    name: str,
    text: str,
    message: str,
) -> None:
    path = tmp_path / name
    path.write_text(text, errors="surrogatepass")
    with pytest.raises(InputError, match=message):
        read(path)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/x", "..", "\0", 7, []])
def test_an_index_names_files_beside_it_only(
    tmp_path: Path, name: object
) -> None:
    outside = tmp_path / "x"
    outside.write_bytes((2).to_bytes(8, "little") + b"{}")
    path = tmp_path / "folder" / hugging_face.INDEX
    path.parent.mkdir()
    path.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(InputError, match="cannot be read"):
        open_weights(str(path))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("do_lower_case", "yes"),
        ("strip_accents", 1),
        ("doc_stride", 0),
        ("lstm_size", 2**31 - 1),
        ("max_answer_length", True),
        ("labels", "ab"),
        ("labels", [1, 2]),
        ("labels", [HALF]),
        ("null_score_diff_threshold", float("inf")),
    ],
)
def test_every_field_of_task_json_is_checked(
    tmp_path: Path, field: str, value: object
) -> None:
    good = json.loads(TaskConfig("single_label", 7, True).to_json())
    text = json.dumps({**good, field: value}).replace("Infinity", "1e999")
    (tmp_path / TASK).write_text(text)
    with pytest.raises(InputError, match=f"{field} is .*; expected"):
        TaskConfig.from_folder(str(tmp_path))


def test_halves_of_signs_become_question_marks(tmp_path: Path) -> None:
    row = json.dumps({"text": HALF, "label": HALF})
    (tmp_path / "x.jsonl").write_text(row)
    table = classification_data.TableFormat("text", None, "label", True)
    (example,) = classification_data.read_table(
        str(tmp_path / "x.jsonl"), table, True
    )
    assert (example.text_a, example.label) == ("a?b", "a?b")
    asked = {"id": "1", "question": HALF}
    data = [{"paragraphs": [{"context": HALF, "qas": [asked]}]}]
    (tmp_path / "x.json").write_text(json.dumps({"data": data}))
    (read,) = squad_data.read_examples(str(tmp_path / "x.json"), False, False)
    assert (read.question, read.paragraph.words) == ("a?b", ["a?b"])


@pytest.mark.parametrize("value", [np.array([b"text"]), np.array([1])])
def test_weights_are_floats(tmp_path: Path, value: np.ndarray) -> None:
    prefix = str(tmp_path / "x")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["bert/a"],
        shape_and_slices=[""],
        tensors=[tf.constant(value)],
    )
    with pytest.raises(InputError, match="holds bert/a as .*expected one of"):
        open_weights(prefix).read("bert/a")


def test_lines_and_pieces_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 1000)
    (tmp_path / "x").write_bytes(bytes(1000) + b"\n")
    with pytest.raises(InputError, match="x, line 1 is longer than"):
        list(text_files.read_lines(str(tmp_path / "x")))
    with pytest.raises(InputError, match="zero, line 1 is longer than"):
        list(text_files.read_lines("/dev/zero"))
    with pytest.raises(InputError, match="zero is not a vocabulary: line 1"):
        vocabulary.check_vocabulary("/dev/zero")


def test_an_error_is_one_line_that_commands_no_terminal() -> None:
    hostile_name = "a\nb\x1b[2J\x00\u202e"
    assert one_line(hostile_name) == r"a b\x1b[2J\x00\u202e"
    assert len(one_line("x" * 10**6)) < 2 * MAX_SENTENCE

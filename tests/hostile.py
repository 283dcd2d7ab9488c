"""Hostile files for every reader, as strategies of hypothesis.

A target is what makes a file's bytes and what reads them. The property is the
same for all: the reader gives a right value or an InputError, whatever the
bytes. tests/test_hostile_input.py tries some cases of each, and
benchmarks/fuzz.py as many as there is time for.
"""

import atexit
import copy
import functools
import json
import os
import pickle
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import strategies as st
from tensorflow.core.protobuf.tensor_bundle_pb2 import (
    BundleEntryProto,
    BundleHeaderProto,
)

from bert_keras import checkpoint_index
from bert_keras.data import (
    bpe,
    corpus,
    fast_tokenization,
    inspect_records,
    tfrecords,
    tokenization,
    validate_records,
)
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.tokenizer_folder import open_tokenizer
from bert_keras.data.tokenizers import check_any_vocabulary, check_ids
from bert_keras.errors import InputError
from bert_keras.modeling import checkpoint
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks import sentence_pooling
from bert_keras.tasks.classification import data as classification_data
from bert_keras.tasks.classification import glue
from bert_keras.tasks.multiple_choice import data as multiple_choice_data
from bert_keras.tasks.ner import data as ner_data
from bert_keras.tasks.squad import data as squad_data
from bert_keras.tasks.task_config import TaskConfig
from tests import crafted_index

GOLDEN = Path(__file__).parent / "golden"
SEQ_LENGTH, NUM_PREDICTIONS, VOCAB_SIZE = 7, 2, 11
FEATURES = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS, 2)
FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, True)

# Whole files that no reader expects.
FOREIGN = (
    b"",
    b"\n",
    bytes(1000),
    b"[" * 100_000,
    b'{"data":' * 100_000,
    b"1" * 5000,  # Python refuses so long a number
    b'{"vocab_size": 1e999, "data": NaN}',
    b"\xef\xbb\xbf{}",
    "größe\tname\n".encode("latin-1"),
    '{"a": 1}'.encode("utf-16"),
    b'"\\ud800"\n',
    pickle.dumps({"weights": [1.0]}),
    b"PK\x03\x04" + bytes(26) + b"../../escaped",
    b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'shape': (1,), }\n",
    b"\x1f\x8b\x08\x00" + bytes(30),
    b"\x89HDF\r\n\x1a\n" + bytes(60),
)

ANY_TEXT = st.text(  # with halves of signs that take two, as JSON brings them
    st.characters(exclude_categories=()), max_size=30
)
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**63, 10**30])
    | st.floats()
    | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=6,
)


class Target(NamedTuple):
    """A reader and what it is given."""

    name: str
    cases: st.SearchStrategy[Any]
    read: Callable[[Any], None]  # raises where the property does not hold


def survives(read: Callable[[], Any]) -> Any:
    """What is read; None where the reader refuses with a sentence."""
    try:
        return read()
    except InputError as error:
        assert str(error).strip()
        return None


def write(name: str, content: bytes) -> str:
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with up to three bytes, or stretches, changed."""
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content)))
        end = draw(st.integers(place, len(content)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "drop", "again"]))
        if kind == "flip" and place < len(content):
            byte = bytes([content[place] ^ draw(st.integers(1, 255))])
            content = content[:place] + byte + content[place + 1 :]
        elif kind == "cut":
            content = content[:place]
        elif kind == "insert":
            inserted = draw(st.binary(max_size=9))
            content = content[:place] + inserted + content[place:]
        elif kind == "drop":
            content = content[:place] + content[end:]
        elif kind == "again":
            content = content[:end] + content[place:]
    return content


def hostile(content: bytes) -> st.SearchStrategy[bytes]:
    """The content damaged, or something else altogether."""
    return (
        damaged(content)
        | st.sampled_from(FOREIGN)
        | st.binary(max_size=100)
        | ANY_JSON.map(json.dumps).map(str.encode)
    )


@st.composite
def changed(draw: st.DrawFn, valid: Any) -> Any:
    """JSON with up to three of its values, at any depth, others or gone."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(0, 3))):
        parent = value
        while isinstance(parent, dict | list) and parent:
            keys = list(parent) if isinstance(parent, dict) else None
            key = draw(st.sampled_from(keys or range(len(parent))))
            inside = parent[key]
            if isinstance(inside, dict | list) and draw(st.booleans()):
                parent = inside
                continue
            if draw(st.booleans()):
                parent[key] = draw(ANY_JSON)
            else:
                del parent[key]
            break
    return value


def hostile_json(valid: Any) -> st.SearchStrategy[bytes]:
    text = changed(valid).map(json.dumps).map(str.encode)
    return text | hostile(json.dumps(valid).encode())


@functools.cache
def tokenizer() -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))


@functools.cache
def line_tokenizer() -> fast_tokenization.LineTokenizer:
    return fast_tokenization.LineTokenizer(tokenizer())


def read_text(text: str) -> None:
    made = tokenizer()
    pieces = made.tokenize(text)
    made.convert_tokens_to_ids(pieces)
    spans = made.tokenize_with_offsets(text)
    assert [span.token for span in spans] == pieces
    for span in spans:
        assert 0 <= span.start < span.end <= len(text)


def read_vocabulary(content: bytes) -> None:
    path = write("vocab.txt", content)
    vocab = survives(lambda: check_any_vocabulary(path))
    if vocab is not None:
        survives(lambda: check_ids(vocab, 50, path))
        assert {"[UNK]", "[CLS]", "[SEP]"} <= vocab.keys()
        assert vocab == tokenization.load_vocab(path)


def read_config(content: bytes) -> None:
    path = write("bert_config.json", content)
    config = survives(lambda: BertConfig.from_json_file(path))
    if config is not None:
        assert config.hidden_size % config.num_attention_heads == 0
        again = write("again.json", config.to_json().encode())
        other = BertConfig.from_json_file(again)
        assert other.to_json() == config.to_json()  # NaN equals nothing else


def read_task(content: bytes) -> None:
    write("task.json", content)
    task = survives(lambda: TaskConfig.from_folder(FOLDER))
    if task is not None:
        write("task.json", task.to_json().encode())
        assert TaskConfig.from_folder(FOLDER) == task


def read_tokenizer_json(content: bytes) -> None:
    folder = tempfile.mkdtemp()
    Path(folder, "tokenizer.json").write_bytes(content)
    found = survives(lambda: open_tokenizer(folder))
    if found is not None:
        assert found.load().vocab
        shutil.rmtree(Path(found.vocab_file).parent)
    shutil.rmtree(folder)


def read_byte_level(content: bytes) -> None:
    write("merges.txt", _MERGES)
    path = write("vocab.json", content)
    read_any = survives(lambda: bpe.load_byte_level(path))
    if read_any is not None:
        read_any.convert_tokens_to_ids(read_any.tokenize("the sea \u6d77"))


def read_merges(content: bytes) -> None:
    write("merges.txt", content)
    path = write("vocab.json", _BYTE_LEVEL)
    read_any = survives(lambda: bpe.load_byte_level(path))
    if read_any is not None:
        read_any.convert_tokens_to_ids(read_any.tokenize("the sea \u6d77"))


def read_records(content: bytes) -> None:
    """The readers must be of one mind about what is good."""
    path = write("some.tfrecord", content)
    damage = validate_records.find_damage([path], FEATURES, VOCAB_SIZE)
    survives(
        lambda: validate_records.table_of(
            validate_records.read_first(path), 7, 2, 2
        )
    )
    survives(lambda: validate_records.check_files([path], FEATURES, VOCAB_SIZE))
    batches = survives(
        lambda: list(inspect_records.read_batches([path], FEATURES, VOCAB_SIZE))
    )
    assert (damage is None) == (batches is not None), damage


def inspect(content: bytes) -> None:
    """Records of any kind, as inspect_records.py takes them."""
    path = write("any.tfrecord", content)
    table = survives(lambda: inspect_records.find_table([path]))
    if table is not None:
        survives(
            lambda: list(
                inspect_records.read_batches([path], table, VOCAB_SIZE)
            )
        )


def read_squad(content: bytes) -> None:
    path = write("squad.json", content)
    for has_negatives in (False, True):
        for is_training in (False, True):
            examples = survives(
                functools.partial(
                    squad_data.read_examples, path, has_negatives, is_training
                )
            )
            for example in examples or ():
                example.question.encode()
                words = example.paragraph.words
                if example.answer:
                    assert 0 <= example.answer.first_word < len(words)


def read_table(case: tuple[str, bool, bytes]) -> None:
    ending, has_header, content = case
    path = write(f"table{ending}", content)
    names = ("text", "label") if has_header else ("0", "1")
    table = classification_data.TableFormat(
        names[0], None, names[1], has_header
    )
    if ending.startswith(".json"):
        table = classification_data.TableFormat("text", None, "label", True)
    examples = survives(
        lambda: classification_data.read_table(path, table, True)
    )
    for example in examples or ():
        "".join([example.text_a, *(example.label or ())]).encode()


def read_questions(case: tuple[str, bytes]) -> None:
    ending, content = case
    path = write(f"questions{ending}", content)
    found = survives(
        lambda: multiple_choice_data.read_questions(path, "--f", True)
    )
    for question in found or ():
        assert question.label is not None
        assert 0 <= question.label < len(question.choices)
        " ".join([question.context, *question.choices]).encode()


def read_columns(content: bytes) -> None:
    path = write("tagged.txt", content)
    file = survives(lambda: ner_data.read_columns(path))
    if file is not None:
        own = [s.tags or ["O"] * len(s.words) for s in file.sentences]
        assert len(ner_data.with_column(file, own).split("\n")) > len(own)


def read_tagged(content: bytes) -> None:
    path = write("tagged.json", content)
    file = survives(lambda: ner_data.read_tagged_json(path))
    if file is not None:
        own = [s.tags or ["O"] * len(s.words) for s in file.sentences]
        ner_data.with_field(file, own).encode()


def read_sentence_pooling(content: bytes) -> None:
    path = write("modules.json", content)
    survives(lambda: sentence_pooling.read_sentence_pooling(path))


def read_glue(case: tuple[str, bytes]) -> None:
    name, content = case
    task = glue.find_task(name)
    write("train.tsv", content)
    examples = survives(lambda: task.read(FOLDER, "train"))
    for example in examples or ():
        assert task.labels is None or example.label in task.labels


def read_corpus(case: tuple[str, bytes]) -> None:
    input_format, content = case
    path = write("text.txt", content)
    wanted = corpus.TextFormat(input_format)

    def blocks() -> list[corpus.Block]:
        return [
            block
            for span in corpus.find_spans([path])
            for block, _ in corpus.tokenize(
                span, wanted, line_tokenizer(), np.int32
            )
        ]

    for block in survives(blocks) or ():
        assert block.sentences.sum() == len(block.ids)
        assert block.documents.sum() == len(block.sentences)


def read_weights(path: str) -> None:
    weights = survives(lambda: checkpoint.open_weights(path))
    for name in weights.shapes if weights else ():
        value = survives(functools.partial(weights.read, name))
        if value is not None:
            assert value.dtype == np.float32, value.dtype
            assert value.shape == tuple(weights.shapes[name])


def read_safetensors(content: bytes) -> None:
    read_weights(write("model.safetensors", content))


def read_index(content: bytes) -> None:
    """It names other files: none outside its folder is opened."""
    outside = os.path.join(os.path.dirname(FOLDER), "outside.safetensors")
    assert not os.path.exists(outside)
    read_weights(write("model.safetensors.index.json", content))


def read_checkpoint(case: tuple[bytes, bytes]) -> None:
    """What is read is in the file: nothing that lay in memory."""
    write("part.data-00000-of-00001", case[1])
    prefix = write("part.index", case[0]).removesuffix(".index")
    read_weights(prefix)
    weights = survives(lambda: checkpoint.CheckpointReader(prefix))
    for name in weights.shapes if weights else ():
        value = survives(functools.partial(weights.read, name))
        if value is not None and weights._variables[name].dtype == "float32":
            stored = value.tobytes(), value.byteswap().tobytes()
            assert any(text in case[1] for text in stored), name


def _record(ids: Sequence[int]) -> dict[str, list[float]]:
    return {
        "input_ids": [*ids, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 1, 1, 1, 0],
        "masked_lm_positions": [1, 4],
        "masked_lm_ids": [3, 10],
        "masked_lm_weights": [1.0, 1.0],
        "next_sentence_labels": [1],
    }


def _example(values: dict[str, list[Any]]) -> bytes:
    example = tf.train.Example()
    for name, numbers in values.items():
        target = example.features.feature[name]
        if all(isinstance(number, int) for number in numbers):
            target.int64_list.value.extend(numbers)
        elif all(isinstance(number, float) for number in numbers):
            target.float_list.value.extend(numbers)
        else:
            target.bytes_list.value.extend(
                n for n in numbers if isinstance(n, bytes)
            )
    return example.SerializeToString()


def with_huge_length(length: int) -> bytes:
    """A record that says to be of this length, with a right checksum."""
    whole = tfrecords.frame([b"", b"the second"])
    return whole + tfrecords._head(length) + b"abc"


def _record_files() -> st.SearchStrategy[bytes]:
    valid = _record([2, 5, 6, 3, 7, 3])
    names = st.sampled_from(
        [*valid, "segment_lengths", "next_sentence_positions", "label_ids",
         "unique_ids", "start_positions", "next_sentence_weights",
         "sequence_numbers", "position_ids", "other"]
    )  # fmt: skip
    numbers = st.sampled_from([-(2**63), -1, 0, 1, 5, 10, 11, 2**32, 2**62])
    lists = (
        st.lists(numbers | st.integers(-(2**63), 2**63 - 1), max_size=8)
        | st.lists(st.floats(width=32), max_size=3)
        | st.lists(st.binary(max_size=3), max_size=3)
    )
    changes = st.dictionaries(names, lists, max_size=3)
    records = changes.map(lambda more: _example({**valid, **more}))
    others = st.dictionaries(names, lists, max_size=9).map(_example)
    framed = st.lists(records | others | st.binary(max_size=20), max_size=3)
    lengths = st.sampled_from([2**33, 2**40, 2**62, 2**63 + 5, 2**64 - 8])
    return (
        framed.map(tfrecords.frame)
        | hostile(tfrecords.frame([_example(valid)] * 3))
        | lengths.map(with_huge_length)
    )


def _tensors(header: bytes, said: int | None = None) -> bytes:
    length = len(header) if said is None else said
    return struct.pack("<Q", length) + header + bytes(24)


def _safetensors_files() -> st.SearchStrategy[bytes]:
    valid: dict[str, Any] = {
        "__metadata__": {"format": "pt"},
        "bert.pooler.dense.bias": {
            "dtype": "F32",
            "shape": [2],
            "data_offsets": [0, 8],
        },
        "bert.pooler.dense.weight": {
            "dtype": "BF16",
            "shape": [2, 4],
            "data_offsets": [8, 24],
        },
    }
    text = json.dumps(valid).encode()
    headers = changed(valid).map(json.dumps).map(str.encode)
    dtypes = st.sampled_from(
        ["F64", "F16", "I8", "BOOL", "F8_E4M3", "F4", "C64", "X", ""]
    )
    others = dtypes.map(lambda d: text.replace(b"BF16", d.encode()))
    names = st.sampled_from(["../../x", "/etc/passwd", "a\\nb", "\\u0000"])
    named = names.map(lambda n: text.replace(b"bert.pooler", n.encode()))
    twice = st.just(text[:-1] + b"," + text[text.index(b'"bert') :])
    return (
        (headers | others | named | twice | st.sampled_from(FOREIGN)).map(
            _tensors
        )
        | st.integers(0, 2**64 - 1).map(lambda n: _tensors(text, n))
        | hostile(_tensors(text))
    )


@functools.cache
def _checkpoint() -> tuple[bytes, bytes]:
    prefix = os.path.join(FOLDER, "made")
    values = {
        "bert/a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "bert/b": np.array([b"text", b"another"]),
        "bert/c": np.array([1, 2, 3]),
        "bert/d": np.array([1 + 2j]),
    }
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
    parts = (".index", ".data-00000-of-00001")
    return tuple(Path(prefix + part).read_bytes() for part in parts)  # type: ignore[return-value]


def _checkpoint_files() -> st.SearchStrategy[tuple[bytes, bytes]]:
    index, data = _checkpoint()
    return st.tuples(
        damaged(index) | st.sampled_from(FOREIGN),
        damaged(data) | st.sampled_from(FOREIGN),
    )


@st.composite
def _crafted_indexes(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Up to three fields, or other things, are changed; checksums are right."""
    index, data = _checkpoint()
    items = list(checkpoint_index._table(index))
    numbers = st.sampled_from(
        [-(2**63), -1, 0, 1, 2, 3, 6, 8, 24, 2**31, 2**40, 2**62, 2**63 - 1]
    )
    small = st.sampled_from([-(2**31), -1, 0, 1, 2, 5, 100, 101, 2**31 - 1])
    dtypes = st.integers(-1, 35) | small
    sizes = st.lists(numbers | st.integers(0, 9), max_size=4)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(items) - 1))
        key, value = items[place]
        kind = draw(
            st.sampled_from(
                ["field", "field", "field", "bytes", "name", "twice", "drop"]
            )
        )
        if kind == "field":
            value = _changed_entry(draw, key, value, numbers, dtypes, sizes)
        elif kind == "bytes":
            value = draw(damaged(value) | st.binary(max_size=9))
        elif kind == "name":
            key = draw(damaged(key) | st.binary(max_size=9))
        items[place] = key, value
        if kind == "twice":
            items.insert(place, (key, value))
        elif kind == "drop" and len(items) > 1:
            del items[place]
    if draw(st.booleans()):
        items.sort()
    cut = draw(st.integers(0, len(items)))
    parts = [part for part in (items[:cut], items[cut:]) if part]
    separators = [part[-1][0] for part in parts]
    blocks = [crafted_index.block(part) for part in parts]
    kind = draw(st.sampled_from(["good"] * 5 + ["restarts", "bytes", "names"]))
    if kind == "restarts":
        restarts = st.lists(st.integers(0, 2**32 - 1) | small.map(abs))
        blocks[0] = crafted_index.block(parts[0], draw(restarts))
    elif kind == "bytes":
        blocks[0] = draw(damaged(blocks[0]))
    elif kind == "names":
        separators[0] = draw(st.binary(max_size=9))
    handle = draw(st.none() | st.none() | st.tuples(numbers, numbers))
    compression = draw(st.sampled_from([0] * 9 + [1, 7]))
    return crafted_index.table(blocks, separators, compression, handle), data


def _changed_entry(
    draw: st.DrawFn,
    key: bytes,
    value: bytes,
    numbers: st.SearchStrategy[int],
    dtypes: st.SearchStrategy[int],
    sizes: st.SearchStrategy[list[int]],
) -> bytes:
    try:
        if not key:
            header = BundleHeaderProto.FromString(value)
            header.num_shards = draw(dtypes)
            header.endianness = draw(st.integers(0, 2))
            header.version.min_consumer = draw(st.sampled_from([0, 1, 99]))
            return header.SerializeToString()
        entry = BundleEntryProto.FromString(value)
    except DecodeError:
        return value
    field = draw(
        st.sampled_from(
            ["dtype", "shape", "rank", "shard_id", "offset", "size", "slices"]
        )
    )
    if field == "shape":
        del entry.shape.dim[:]
        for size in draw(sizes):
            entry.shape.dim.add(size=size)
    elif field == "rank":
        entry.shape.unknown_rank = True
    elif field == "slices":
        part = entry.slices.add()
        for size in draw(sizes):
            part.extent.add(start=draw(numbers), length=size)
    else:
        narrow = field in ("dtype", "shard_id")
        setattr(entry, field, draw(dtypes if narrow else numbers))
    end = entry.offset + entry.size
    if 0 <= entry.offset <= end <= len(_checkpoint()[1]) and draw(
        st.booleans()
    ):
        part_of = _checkpoint()[1][entry.offset : end]
        entry.crc32c = crafted_index.checksum(part_of)
    return entry.SerializeToString()


_QUESTION = {
    "id": "q1",
    "question": "Who?",
    "is_impossible": False,
    "answers": [{"text": "Ada", "answer_start": 0}],
}
_SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "T",
            "paragraphs": [{"context": "Ada wrote it.", "qas": [_QUESTION]}],
        }
    ],
}
_CONFIG = {
    "vocab_size": 101,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
}
_TASK = json.loads(
    TaskConfig("single_label", 16, True, labels=("no", "yes")).to_json()
)
_INDEX = {"weight_map": {"a": "one.safetensors", "b": "../outside.safetensors"}}
_TOKENIZER = {
    "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}},
    "added_tokens": [{"content": "[MASK]", "id": 2}],
}
_TABLES = {
    ".tsv": b"text\tlabel\na b\t0\nc\t1\n",
    ".csv": b'text,label\n"a ""b""",0\nc,1\n',
    ".jsonl": b'{"text": "a", "label": [0]}\n{"text": "c", "label": "1"}\n',
    ".tsv.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}
_DEEP = b'{"text": "a", "label": ' + b"[" * 900 + b"]" * 900 + b"}\n"
_QUESTIONS = {
    ".csv": b"sent1,sent2,ending0,ending1,label\na,b,c,d,0\n",
    ".jsonl": b'{"context": "a", "choices": ["b", "c"], "label": 1}\n',
    ".json": b'[{"article": "a", "questions": ["_?"], "options": [["b", "c"]],'
    b' "answers": ["A"]}]',
}
_GLUE = {
    "CoLA": b"g\t1\t\ta text\ng\t0\t*\tanother\n",
    "SST-2": b"sentence\tlabel\na text\t1\n",
    "RTE": b"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
    "STS-B": b"\t" * 9 + b"score\n" + b"0\t" * 9 + b"2.5\n",
}
_VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"
_BYTE_LEVEL = (GOLDEN / "byte_level" / "vocab.json").read_bytes()
_MERGES = (GOLDEN / "byte_level" / "merges.txt").read_bytes()

TARGETS = (
    Target("tokenizer", ANY_TEXT, read_text),
    Target("vocabulary", hostile(_VOCABULARY), read_vocabulary),
    Target("bert_config.json", hostile_json(_CONFIG), read_config),
    Target(
        "config.json",
        hostile_json({**_CONFIG, "model_type": "bert"}),
        read_config,
    ),
    Target("task.json", hostile_json(_TASK), read_task),
    Target("tokenizer.json", hostile_json(_TOKENIZER), read_tokenizer_json),
    Target(
        "vocab.json", hostile_json(json.loads(_BYTE_LEVEL)), read_byte_level
    ),
    Target("merges.txt", hostile(_MERGES), read_merges),
    Target("TFRecords", _record_files(), read_records),
    Target("TFRecords of any kind", _record_files(), inspect),
    Target("SQuAD's JSON", hostile_json(_SQUAD), read_squad),
    Target(
        "own tables",
        st.sampled_from(sorted(_TABLES)).flatmap(
            lambda ending: st.tuples(
                st.just(ending),
                st.booleans(),
                hostile(_TABLES[ending]) | st.just(_DEEP),
            )
        ),
        read_table,
    ),
    Target(
        "multiple choice",
        st.sampled_from(sorted(_QUESTIONS)).flatmap(
            lambda ending: st.tuples(
                st.just(ending), hostile(_QUESTIONS[ending])
            )
        ),
        read_questions,
    ),
    Target(
        "tagged words",
        hostile(b"-DOCSTART- O\n\nan\tO\nold I-PER\nsea B-PER\n\n"),
        read_columns,
    ),
    Target(
        "tagged words in JSON",
        hostile(b'[{"tokens": ["an", "old"], "ner_tags": ["O", "B-PER"]}]'),
        read_tagged,
    ),
    Target(
        "sentence-transformers",
        hostile(
            b'[{"path": "", "type": "m.Transformer"}, {"type": "Pooling"}]'
        ),
        read_sentence_pooling,
    ),
    Target(
        "GLUE's tables",
        st.sampled_from(sorted(_GLUE)).flatmap(
            lambda name: st.tuples(st.just(name), hostile(_GLUE[name]))
        ),
        read_glue,
    ),
    Target(
        "text to pre-train on",
        st.tuples(
            st.sampled_from(["sentences", "paragraphs", "jsonl"]),
            hostile(b'{"text": "A sentence. Another."}\n\nA third.\n'),
        ),
        read_corpus,
    ),
    Target("safetensors", _safetensors_files(), read_safetensors),
    Target("safetensors' index", hostile_json(_INDEX), read_index),
    Target("checkpoints", _checkpoint_files(), read_checkpoint),
    Target("checkpoints' index", _crafted_indexes(), read_checkpoint),
)

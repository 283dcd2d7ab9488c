"""Pairs against the original's recorded ones, and worked out by hand."""

import dataclasses
import json
import pathlib
import random

import numpy as np
import pytest

from bert_keras.data import instances, tokenization
from bert_keras.data.instances import InstanceConfig
from bert_keras.errors import InputError
from tests.conftest import GOLDEN, ROOT

SHARED = ROOT.parent / "shared"
RECORD_SETS = {
    "records_seq128_seed12345": InstanceConfig(dupe_factor=2),
    "records_seq64_seed7_wwm": InstanceConfig(
        max_seq_length=64,
        max_predictions_per_seq=10,
        do_whole_word_mask=True,
        dupe_factor=3,
        short_seq_prob=0.2,
        random_seed=7,
    ),
}


def read(
    path: pathlib.Path, vocab_file: pathlib.Path
) -> tuple[tokenization.FullTokenizer, list[instances.Document]]:
    tokenizer = tokenization.FullTokenizer(str(vocab_file))
    with path.open(encoding="utf-8", newline="\n") as lines:
        documents = instances.read_documents(
            [(path.name, lines)], tokenizer.tokenize
        )
    return tokenizer, documents


def create(
    documents: list[instances.Document],
    vocab_words: list[str],
    config: InstanceConfig,
) -> list[instances.Instance]:
    return instances.create_instances(
        documents, vocab_words, config, random.Random(config.random_seed)
    )


def test_tiny_golden() -> None:
    tokenizer, documents = read(
        GOLDEN / "tiny_corpus.txt", GOLDEN / "tiny_vocab.txt"
    )
    config = InstanceConfig(
        max_seq_length=23,
        max_predictions_per_seq=5,
        dupe_factor=3,
        short_seq_prob=0.3,
        random_seed=11,
    )
    made = create(documents, list(tokenizer.vocab), config)
    expected = json.loads((GOLDEN / "tiny_instances.json").read_text("utf-8"))
    assert len(made) == len(expected) == 32
    for instance, record in zip(made, expected, strict=True):
        found = dataclasses.asdict(instance)
        del found["is_truncated"]
        assert found == record


@pytest.mark.parametrize("name", RECORD_SETS)
def test_golden_records(name: str) -> None:
    path = SHARED / "golden" / f"{name}.npz"
    if not path.exists():
        pytest.skip("the recorded records are not here")
    config = RECORD_SETS[name]
    tokenizer, documents = read(
        SHARED / "golden" / "corpus_400.txt",
        SHARED / "data" / "vocab" / "bert-base-uncased" / "vocab.txt",
    )
    made = [
        instances.to_features(instance, tokenizer.vocab, config)
        for instance in create(documents, list(tokenizer.vocab), config)
    ]
    golden = np.load(path)
    assert set(golden.files) == set(made[0])
    for feature in golden.files:
        np.testing.assert_array_equal(
            [record[feature] for record in made], golden[feature]
        )


def tokenize(line: str) -> list[str]:
    return line.split()


def test_read_documents() -> None:
    files = [
        ("one", ["a b\n", " \t\n", "\n", "c\n", "\u200b\n"]),
        ("two", ["d\r\n", "\r\n", "e"]),
    ]
    # A document goes on into the next file: c and d are one.
    assert instances.read_documents(files, tokenize) == [
        [["a", "b"]],
        [["c"], ["\u200b"], ["d"]],
        [["e"]],
    ]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("one", [])], "one is empty"),
        ([("one", ["\n", " \n"])], "one is empty"),
        ([("one", ["a\n", "\n", "b\n"]), ("two", [])], "two is empty"),
        ([("one", ["a\n", "b\n"])], "one has no blank line.*next sentence"),
        ([("one", ["\n", "a\n", "\n"])], "single document.*next sentence"),
    ],
)
def test_read_documents_refuses(
    files: list[tuple[str, list[str]]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        instances.read_documents(files, tokenize)


Draw = float | tuple[int, int, int]  # (lower bound, upper bound, number)


class ScriptedRandom(random.Random):
    """Plays back given draws, and checks the bounds of whole numbers."""

    def __init__(self, draws: list[Draw]) -> None:
        super().__init__()
        self.draws = draws

    def random(self) -> float:
        draw = self.draws.pop(0)
        assert isinstance(draw, float)
        return draw

    def randint(self, a: int, b: int) -> int:
        draw = self.draws.pop(0)
        assert isinstance(draw, tuple)
        assert (a, b) == draw[:2]
        return draw[2]

    def shuffle(self, x: list) -> None:  # type: ignore[override]
        pass


DOCUMENTS = [
    [["a1", "a2"], ["a3"], ["a4", "a5", "a6"], ["a7"]],
    [["b1"], ["b2", "b3"], ["b4"]],
]


def pairs(made: list[instances.Instance]) -> list[str]:
    """As text, with the hidden pieces put back."""
    texts = []
    for instance in made:
        tokens = list(instance.tokens)
        for position, label in zip(
            instance.masked_lm_positions,
            instance.masked_lm_labels,
            strict=True,
        ):
            tokens[position] = label
        texts.append(" ".join(tokens))
    return texts


def test_document_by_hand() -> None:
    # Target 8 - 3 = 5 pieces, one mask a record.
    config = InstanceConfig(max_seq_length=8, max_predictions_per_seq=1)
    rng = ScriptedRandom(
        [
            0.1,  # not below short_seq_prob: full length
            (1, 2, 1),  # chunk a1..a6: A is its first sentence
            0.4,  # random B, of 5 - 2 = 3 pieces
            (0, 1, 0),  # this document itself: once more
            (0, 1, 1),
            (0, 2, 1),  # from b2 on
            0.0,  # [MASK]
            (1, 2, 2),  # a3 again, a4 to a6, a7: A is two sentences
            0.5,  # B follows
            0.0,
        ]
    )
    made = instances.instances_from_document(DOCUMENTS, 0, ["v"], config, rng)
    assert not rng.draws
    assert pairs(made) == [
        "[CLS] a1 a2 [SEP] b2 b3 b4 [SEP]",
        "[CLS] a3 a4 a5 a6 [SEP] a7 [SEP]",
    ]
    assert [instance.is_random_next for instance in made] == [True, False]
    assert made[0].tokens[1] == "[MASK]"
    assert made[0].segment_ids == [0, 0, 0, 0, 1, 1, 1, 1]
    assert not any(instance.is_truncated for instance in made)


def test_one_sentence_is_always_random() -> None:
    config = InstanceConfig(max_seq_length=8, max_predictions_per_seq=1)
    documents = [[["a1"]], [["b1"]]]
    rng = ScriptedRandom([0.1, (0, 1, 1), (0, 0, 0), 0.0])
    made = instances.instances_from_document(documents, 0, ["v"], config, rng)
    assert pairs(made) == ["[CLS] a1 [SEP] b1 [SEP]"]
    assert made[0].is_random_next


def test_short_target() -> None:
    config = InstanceConfig(max_seq_length=8, max_predictions_per_seq=1)
    rng = ScriptedRandom(
        [
            0.09,
            (2, 5, 3),  # 3 pieces: a1 a2 | a3, then a4 to a6, then a7
            (1, 1, 1),
            0.9,
            0.0,
            (0, 1, 1),  # one sentence: B is of at least 3 - 3 pieces
            (0, 2, 0),
            0.0,
            (0, 1, 1),
            (0, 2, 2),
            0.0,
        ]
    )
    made = instances.instances_from_document(DOCUMENTS, 0, ["v"], config, rng)
    assert not rng.draws
    assert pairs(made) == [
        "[CLS] a1 a2 [SEP] a3 [SEP]",
        "[CLS] a4 a5 a6 [SEP] b1 [SEP]",
        "[CLS] a7 [SEP] b4 [SEP]",
    ]


def test_truncate_pair_by_hand() -> None:
    # 4 + 3 to 4: A's front, B's end (equal lengths: B's turn), A's end.
    rng = ScriptedRandom([0.4, 0.5, 0.9])
    a, b = instances.truncate_pair(
        ["a1", "a2", "a3", "a4"], ["b1", "b2", "b3"], 4, rng
    )
    assert (a, b) == (["a2", "a3"], ["b1", "b2"])
    assert not rng.draws
    assert instances.truncate_pair(a, b, 4, rng) == (a, b)


def test_duplicates_and_random_b_only_from_others() -> None:
    documents = [[[f"d{i}"]] * 2 for i in range(50)]
    config = InstanceConfig(max_seq_length=7, max_predictions_per_seq=1)
    made = create(documents, ["v"], config)
    once = create(documents, ["v"], dataclasses.replace(config, dupe_factor=1))
    # Pairs that follow use two sentences, random ones give one back.
    assert 500 < len(made) < 1100
    assert 50 <= len(once) < 110
    for text, instance in zip(pairs(made), made, strict=True):
        a, b = text.split()[1], text.split()[3]
        assert (a != b) == instance.is_random_next


def test_features() -> None:
    vocab = {"[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "sea": 7, "ship": 9}
    instance = instances.Instance(
        tokens=["[CLS]", "[MASK]", "[SEP]", "ship", "[SEP]"],
        segment_ids=[0, 0, 0, 1, 1],
        is_random_next=True,
        is_truncated=False,
        masked_lm_positions=[1],
        masked_lm_labels=["sea"],
    )
    config = InstanceConfig(max_seq_length=7, max_predictions_per_seq=3)
    assert instances.to_features(instance, vocab, config) == {
        "input_ids": [2, 4, 3, 9, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 0, 0],
        "masked_lm_positions": [1, 0, 0],
        "masked_lm_ids": [7, 0, 0],
        "masked_lm_weights": [1.0, 0.0, 0.0],
        "next_sentence_labels": [1],
    }


def test_summary_by_hand() -> None:
    documents = [[["a", "[UNK]"], ["b"]], [["c", "d", "[UNK]", "e"]]]
    made = [
        instances.Instance(["x"] * 7, [0] * 7, True, True, [1, 2], ["p", "q"]),
        instances.Instance(["x"] * 5, [0] * 5, False, True, [1], ["p"]),
        instances.Instance(["x"] * 11, [0] * 11, True, False, [3], ["p"]),
    ]
    assert instances.summarize(documents, made) == instances.Summary(
        num_documents=2,
        num_sentences=3,
        num_pieces=7,
        num_unknown=2,
        num_records=3,
        num_random_next=2,
        num_truncated=2,
        num_tokens=23,
        num_masked=4,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_seq_length": 4}, "`max_seq_length=4` is too small"),
        (
            {"max_seq_length": 13, "max_predictions_per_seq": 11},
            "`max_predictions_per_seq=11` must lie between 1 and 10",
        ),
        ({"max_predictions_per_seq": 0}, "`max_predictions_per_seq=0`"),
        ({"dupe_factor": 0}, "`dupe_factor=0`"),
        ({"masked_lm_prob": 1.5}, "`masked_lm_prob=1.5`"),
        ({"short_seq_prob": -0.1}, "`short_seq_prob=-0.1`"),
    ],
)
def test_config_refuses(changes: dict[str, float], message: str) -> None:
    InstanceConfig().check()
    with pytest.raises(InputError, match=message):
        dataclasses.replace(InstanceConfig(), **changes).check()  # type: ignore[arg-type]

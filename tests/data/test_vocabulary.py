"""Learning a vocabulary, and the checks that users miss."""

import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_keras.data import tokenization, vocabulary
from bert_keras.data.fast_tokenization import LineTokenizer
from bert_keras.data.graph_tokenization import GraphTokenizer
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.special_tokens import BERT
from bert_keras.data.tokenization import BasicTokenizer
from bert_keras.data.tokenizers import check_any_vocabulary, check_ids
from bert_keras.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
SPECIAL_LINES = "".join(f"{token}\n" for token in vocabulary.SPECIAL_TOKENS)


def write(folder: pathlib.Path, text: str) -> str:
    path = folder / "vocab.txt"
    path.write_text(text, "utf-8")
    return str(path)


def test_check_returns_ids(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, SPECIAL_LINES + "sea\n\n\u2028\n")
    vocab = check_any_vocabulary(path)
    assert vocab == tokenization.load_vocab(path)
    assert vocab["sea"] == 5


def test_check_missing_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="`vocab_file=.*nothing.txt`: No such"):
        vocabulary.check_vocabulary(str(tmp_path / "nothing.txt"))


def test_check_empty_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match=r"vocab\.txt is empty"):
        vocabulary.check_vocabulary(write(tmp_path, "\n\n"))


def test_check_encoding(tmp_path: pathlib.Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        vocabulary.check_vocabulary(str(tmp_path / "vocab.txt"))


def test_check_special_tokens(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, "[PAD]\n[UNK]\n[CLS]\nsea\n")
    with pytest.raises(InputError, match=r"lacks \[SEP\], \[MASK\]"):
        vocabulary.check_vocabulary(path)


def test_of_a_token_listed_twice_the_later_counts(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever reads it: the ids of "the sea" are 8 and 7, not 5."""
    path = write(tmp_path, SPECIAL_LINES + "sea\nship\nsea\nthe\n")
    for _ in range(2):
        assert check_any_vocabulary(path)["sea"] == 7
    assert capsys.readouterr().err == (
        f"{path} repeats tokens in 1 lines (8: sea, as in 6); the last line "
        "of a token is its id\n"
    )
    tokenizer = tokenization.FullTokenizer(path)
    tokens = tokenizer.tokenize("the sea")
    assert tokenizer.convert_tokens_to_ids(tokens) == [8, 7]
    assert LineTokenizer(tokenizer).encode(b"the sea").ids.tolist() == [8, 7]
    graph = GraphTokenizer(tokenizer, 9)
    assert graph.pieces(tf.constant(["the sea"]))[0].to_list() == [[8, 7]]
    masking = read_masking_vocabulary(tokenizer.vocab, BERT)
    assert masking.replacements.tolist() == [*range(5), 7, 6, 8]


def test_check_size(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, SPECIAL_LINES + "sea\nship\n")
    vocab = check_any_vocabulary(path)
    check_ids(vocab, 7, path)
    with pytest.raises(InputError) as caught:
        check_ids(vocab, 6, path)
    assert "ids up to 6 but vocab_size in the config is 6" in str(caught.value)
    assert "`vocab_file` or `bert_config_file`" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("bert-base-uncased", 30522),
        ("bert-base-cased", 28996),
        ("bert-base-multilingual-cased", 119547),
        ("bert-base-chinese", 21128),
    ],
)
def test_released_vocabularies_pass(name: str, size: int) -> None:
    path = SHARED / "data" / "vocab" / name / "vocab.txt"
    if not path.exists():
        pytest.skip("the released vocabularies are not here")
    vocab = check_any_vocabulary(str(path))
    assert len(vocab) == size
    check_ids(vocab, size, str(path))


def test_count_words() -> None:
    assert vocabulary.count_words(["The the sea, The Sea.\n", "Él"]) == {
        ",": 1, ".": 1, "el": 1, "sea": 2, "the": 3,
    }  # fmt: skip
    lower, cased = BasicTokenizer(True, False), BasicTokenizer(False)
    assert vocabulary.count_words(["Él él"], lower) == {"él": 2}
    assert vocabulary.count_words(["Él él"], cased) == {"Él": 1, "él": 1}


def test_learn_by_hand() -> None:
    # Room for 8 pieces: a, b, ##a, ##b and the four commonest merges, which
    # are ab (13), ba (5), then ab with ##a (4), aa (3), and not bb (2).
    words = {"ab": 9, "ba": 5, "aba": 4, "aa": 3, "bb": 2}
    assert vocabulary.learn(words, 16, num_unused=3) == [
        "[PAD]", "[unused0]", "[unused1]", "[unused2]",
        "[UNK]", "[CLS]", "[SEP]", "[MASK]",
        "a", "b", "##a", "##b", "ab", "ba", "aba", "aa",
    ]  # fmt: skip


def test_learn_puts_unknown_at_100() -> None:
    pieces = vocabulary.learn({"ab": 5}, 1000)
    assert [pieces.index(t) for t in vocabulary.SPECIAL_TOKENS] == [
        0, 100, 101, 102, 103,
    ]  # fmt: skip
    assert pieces[104:] == ["a", "b", "##b", "ab"]


def test_min_frequency() -> None:
    # x comes once: its word is left out. ##d##e comes twice, under 3.
    words = {"abx": 1, "ab": 4, "de": 2, "d": 1, "e": 1}
    pieces = vocabulary.learn(words, 50, num_unused=0, min_frequency=3)
    assert pieces[5:] == ["a", "b", "d", "e", "##b", "##e", "ab"]


def test_rare_characters_do_not_crowd_out_words() -> None:
    # Room for 8 pieces: 4 may be characters, the commonest a (with ##a), b.
    words = {"aa": 9, "b": 8, "c": 7, "d": 6, "e": 5}
    pieces = vocabulary.learn(words, 13, num_unused=0)
    assert pieces[5:] == ["a", "b", "c", "##a", "aa"]


def test_too_long_words_teach_nothing() -> None:
    words = {"a" * 201: 9, "b": 2}
    assert vocabulary.learn(words, 50, num_unused=0)[5:] == ["b"]


@pytest.mark.parametrize(
    ("words", "size", "message"),
    [
        ({}, 100, "the text is empty"),
        ({"sea": 9}, 104, "`vocab_size=104` leaves 0 tokens beside 104"),
        ({"sea": 1}, 200, "at `min_frequency=2`"),
    ],
)
def test_learn_refuses(words: dict[str, int], size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        vocabulary.learn(words, size)


LEARN_IN_PYTHON = """
import random
from bert_keras.data import vocabulary
from bert_keras.data.tokenization import BasicTokenizer
rng = random.Random(5)
words = {}
for _ in range(700):
    word = "".join(rng.choices("abcdefgh", k=rng.randint(1, 7)))
    words[word] = rng.randint(1, 4)
print(" ".join(vocabulary.learn(words, 300)))
"""


def test_learn_is_deterministic() -> None:
    # The learner left to itself gives other pieces in every second run.
    learned = set()
    for run in range(5):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(run),
            "RAYON_NUM_THREADS": str(1 + run % 3),
        }
        learned.add(
            subprocess.run(
                [sys.executable, "-c", LEARN_IN_PYTHON],
                cwd=ROOT,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
    assert len(learned) == 1


def test_spelling() -> None:
    counts = {"sea": 3, "seas": 2, "zoo": 15}
    vocab = {"[UNK]": 0, "sea": 1, "##s": 2}
    assert vocabulary.spelling(counts, vocab) == (1.1, 0.75)

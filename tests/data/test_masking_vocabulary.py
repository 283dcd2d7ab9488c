"""What rows and masks have to know of a vocabulary, by hand."""

from bert_keras.data.masking_vocabulary import read_masking_vocabulary
from bert_keras.data.special_tokens import BERT, ROBERTA

SPACE = "\u0120"


def test_word_pieces() -> None:
    vocab = "[PAD] [CLS] [SEP] [MASK] [UNK] sea ##s ##".split()
    pieces = read_masking_vocabulary({p: i for i, p in enumerate(vocab)}, BERT)
    assert (pieces.padding, pieces.start, pieces.end, pieces.mask) == (
        0, 1, 2, 3,
    )  # fmt: skip
    assert pieces.replacements.tolist() == list(range(8))
    assert pieces.continues.tolist() == [False] * 6 + [True] * 2
    assert pieces.joins_over_marks


def test_bytes() -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", f"{SPACE}sea", "s", "<mask>"]
    pieces = read_masking_vocabulary(
        {p: i for i, p in enumerate(names)}, ROBERTA
    )
    assert (pieces.padding, pieces.start, pieces.end, pieces.mask) == (
        1, 0, 2, 6,
    )  # fmt: skip
    assert pieces.replacements.tolist() == [4, 5]  # no mark
    assert pieces.continues[[4, 5]].tolist() == [False, True]
    assert not pieces.joins_over_marks

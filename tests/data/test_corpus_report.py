"""The report on a raw text that is counted by hand."""

from bert_keras.data import corpus_report
from bert_keras.data.bpe import load_byte_level
from bert_keras.data.fast_tokenization import ByteLevelLines
from bert_keras.data.tokenization import FullTokenizer
from tests.conftest import GOLDEN

VOCAB = str(GOLDEN / "tiny_vocab.txt")
LINES = [
    "The sea.\n",  # 3 pieces
    "Ships sailed.\n",  # ship ##s sail ##ed .
    "\n",
    " \x00 \n",  # dropped, and no end of a document either
    "Zebra sea, zebra Yak\n",  # [UNK] sea , [UNK] [UNK]
    "\n",
    "\n",
    "The sea.\n",
    "Zebra sea, zebra Yak\n",
    "  The sea. \n",
]


def test_counts() -> None:
    counter = corpus_report.TextCounter(FullTokenizer(VOCAB), 7)
    for line in LINES:
        counter.add(line)
    summary = counter.summary(LINES)
    assert summary.length_counts[:7] == [0, 0, 0, 3, 0, 3, 0]
    assert sum(summary.length_counts) == 6
    assert summary == corpus_report.TextSummary(
        max_seq_length=7,
        room=4,
        num_documents=3,
        num_single_line_documents=1,
        num_lines=6,
        num_long_lines=3,  # than 4
        num_repeated_lines=3,
        repeated_lines=[("The sea.", 3), ("Zebra sea, zebra Yak", 2)],
        num_pieces=24,
        num_words=22,  # all but ##s and ##ed
        num_unknown=6,
        unknown_words=[("Yak", 2), ("Zebra", 2), ("zebra", 2)],
        length_counts=summary.length_counts,
    )
    shown = corpus_report.format_report(summary).splitlines()
    assert [line.rsplit(maxsplit=1) for line in shown[:8]] == [
        ["documents", "3"],
        ["  of a single line", "33.33%"],
        ["lines", "6"],
        ["  seen before", "50.00%"],
        ["  longer than 4 tokens", "50.00%"],
        ["tokens", "24"],
        ["  [UNK]", "6"],
        ["  [UNK], share", "25.00%"],
    ]
    assert shown[-5:-2] == [
        "lines that come again",
        "          3  The sea.",
        "          2  Zebra sea, zebra Yak",
    ]
    assert "`input_format=paragraphs`" in shown[-2]  # half are longer than 4
    assert shown[-1].startswith("25.0% of the tokens are [UNK]: the vocabulary")


def test_bytes_are_counted_as_records_have_them() -> None:
    """After another sentence there is a space: " wind" is one token, and "wind"
    is w and ind."""
    tokenizer = load_byte_level(str(GOLDEN / "byte_level" / "vocab.json"))
    lines = ["the sea\n", "wind\n", "\n", "wind\n"]
    counter = corpus_report.TextCounter(tokenizer, 11)
    for line in lines:
        counter.add(line)
    expected = ByteLevelLines(tokenizer).encode("".join(lines).encode())
    assert expected.lengths.tolist() == [2, 1, 0, 2]
    counts = counter.summary(lines).length_counts
    assert counts[:3] == [0, 1, 2]


def test_flags_that_a_text_asks_for() -> None:
    def report(lines: list[str]) -> str:
        counter = corpus_report.TextCounter(FullTokenizer(VOCAB), 7)
        for line in lines:
            counter.add(line)
        return corpus_report.format_report(counter.summary(lines))

    sea = "the sea"
    shown = report([f"{sea} {sea} {sea}", "", sea])
    assert "`input_format=paragraphs`" in shown
    assert "`sequence_format=full_sentences`" in shown
    two = [sea, sea, "", sea, sea]
    assert "create_pretraining_data.py" not in report(two)
    assert "a single document" in report(two[:2])


def test_nothing_repeated_reads_nothing_again() -> None:
    counter = corpus_report.TextCounter(FullTokenizer(VOCAB), 7)
    counter.add("the sea\n")
    lines = iter(["the sea\n"])
    assert counter.summary(lines).repeated_lines == []
    counter.add("the sea\n")
    lines = iter(["a ship\n", "the sea\n", "a\n", "the\n"])
    assert counter.summary(lines).repeated_lines == [("the sea", 2)]
    assert list(lines) == [
        "the\n"
    ]  # one more is read to see that all are found


def test_a_text_without_words() -> None:
    counter = corpus_report.TextCounter(FullTokenizer(VOCAB), 7)
    counter.add("\n")
    shown = corpus_report.format_report(counter.summary([]))
    assert "documents" in shown

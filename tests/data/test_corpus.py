"""Formats of text, spans of files, their pieces on disk, and the shares of
parts."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
import sentencex

from bert_keras.data import corpus, instances
from bert_keras.data.corpus import FileSpan, LineError, Stretch, TextFormat
from bert_keras.data.fast_tokenization import LineTokenizer
from bert_keras.data.instances import Summary
from bert_keras.data.segment_sampling import Text
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.errors import InputError
from tests.conftest import GOLDEN

TOKENIZER = LineTokenizer(FullTokenizer(str(GOLDEN / "tiny_vocab.txt")))
LINES = (
    "the sea, an old ship.\nthe ship\n\n \t\n\x00\nold\n\r\nthe sea\nthe zoo\n"
    "\nan old café\n\n\u00a0\nship ship\n\nzoo"
)
SENTENCES = TextFormat()
Documents = list[list[list[int]]]


def documents_of(text: Text) -> Documents:
    return [
        [
            text.ids[slice(*text.sentence_ends[i : i + 2])].tolist()
            for i in range(*text.document_ends[number : number + 2])
        ]
        for number in range(text.num_documents)
    ]


def tokenize(
    spans: list[FileSpan], folder: Path, text_format: TextFormat = SENTENCES
) -> tuple[list[str], Summary]:
    prefixes = [str(folder / f"span-{i}") for i in range(len(spans))]
    counts = Summary()
    for span, prefix in zip(spans, prefixes, strict=True):
        counts += corpus.tokenize_span(
            span, text_format, TOKENIZER, prefix, np.uint16
        )
    return prefixes, counts


def read(
    spans: list[FileSpan], folder: Path, text_format: TextFormat = SENTENCES
) -> Documents:
    prefixes, _ = tokenize(spans, folder, text_format)
    return documents_of(corpus.load_share(prefixes, np.uint16, 0, 1, 0))


def expected(text: str) -> Documents:
    tokenizer = TOKENIZER.tokenizer
    found = instances.read_documents(
        [("text", text.replace("\r", "").split("\n"))],
        tokenizer.tokenize,
    )
    return [
        [tokenizer.convert_tokens_to_ids(sentence) for sentence in document]
        for document in found
    ]


@pytest.mark.parametrize("span_bytes", [3, 10, 37, 1000])
@pytest.mark.parametrize("block_bytes", [1, 16, 1000])
def test_spans_hold_every_document_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    span_bytes: int,
    block_bytes: int,
) -> None:
    monkeypatch.setattr(corpus, "LEAST_SPAN_BYTES", span_bytes)
    monkeypatch.setattr(corpus, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "text.txt"
    path.write_bytes(LINES.encode())
    spans = corpus.find_spans([str(path)])
    assert len(spans) == -(-len(LINES.encode()) // span_bytes)
    assert read(spans, tmp_path) == expected(LINES)


@pytest.mark.parametrize("span_bytes", [5, 40, 1000])
def test_json_lines_in_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span_bytes: int
) -> None:
    monkeypatch.setattr(corpus, "LEAST_SPAN_BYTES", span_bytes)
    monkeypatch.setattr(corpus, "BLOCK_BYTES", 8)
    texts = ["The sea. An old ship.", "", "Zoo.\n\nThe zoo. Café?"]
    path = tmp_path / "text.jsonl"
    path.write_text(
        "\n".join(json.dumps({"id": 1, "body": text}) for text in texts)
    )
    text_format = TextFormat("jsonl", "body")
    spans = corpus.find_spans([str(path)])
    found = read(spans, tmp_path, text_format)
    assert (
        found
        == expected("The sea.\nAn old ship.\n\nZoo.\nThe zoo.\nCafé?\n\nx")[:-1]
    )
    with pytest.raises(InputError, match=r"line 1 has no text in the field"):
        read(spans, tmp_path, TextFormat("jsonl", "text"))
    path.write_text(path.read_text() + "\n{'body': 3}")
    with pytest.raises(InputError, match=r"text.jsonl, line 4 is not JSON"):
        read(corpus.find_spans([str(path)]), tmp_path, text_format)


def test_packed_files_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(LINES.encode()))
    prefixes, counts = tokenize(corpus.find_spans([str(path)]), tmp_path)
    documents = documents_of(corpus.load_share(prefixes, np.uint16, 0, 1, 0))
    assert documents == expected(LINES)
    sentences = [s for document in documents for s in document]
    unknown = TOKENIZER.tokenizer.vocab["[UNK]"]
    assert counts == Summary(
        len(documents),
        len(sentences),
        sum(map(len, sentences)),
        sum(s.count(unknown) for s in sentences),
    )
    assert counts.num_documents == 6


def test_ideographs_are_counted(tmp_path: Path) -> None:
    """Two of the three that are a token each; [UNK] is none."""
    (tmp_path / "vocab.txt").write_text("[UNK]\n\u6d77\n\u4e0a\nsea\n\u3042\n")
    (tmp_path / "text.txt").write_text("\u6d77\u4e0a sea \u3042 \u8239\n")
    tokenizer = LineTokenizer(FullTokenizer(str(tmp_path / "vocab.txt")))
    [span] = corpus.find_spans([str(tmp_path / "text.txt")])
    prefix = str(tmp_path / "span")
    counts = corpus.tokenize_span(
        span, TextFormat(), tokenizer, prefix, np.uint16
    )
    assert counts == Summary(1, 1, 5, num_unknown=1, num_ideographs=2)


def test_a_file_that_ends_ends_its_document(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("the sea\nold ship")
    spans = corpus.find_spans([str(tmp_path / name) for name in "ab"])
    assert len(spans) == 1
    assert list(map(len, read(spans, tmp_path))) == [2, 2]


def test_small_files_share_a_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "LEAST_SPAN_BYTES", 10)
    sizes = {"a.gz": 0, "b": 4, "c": 6, "d": 0, "e": 23, "f": 7, "g": 1}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    spans = corpus.find_spans([str(tmp_path / name) for name in sizes])
    assert [
        [(os.path.basename(path), start, stop) for path, start, stop in span]
        for span in spans
    ] == [
        [("a.gz", 0, None), ("b", 0, 10), ("c", 0, 10)],
        [("e", 0, 10)],
        [("e", 10, 20)],
        [("e", 20, 30), ("f", 0, 10)],
        [("g", 0, 10)],
    ]


def test_parts_share_all_documents_evenly(tmp_path: Path) -> None:
    paths = []
    for number, count in enumerate((23, 1, 0, 40, 7)):
        path = tmp_path / f"{number}.txt"
        # told apart by their lengths
        path.write_text(
            "".join(
                f"{'sea ' * (i + 50 * number)}\nold\n\n" for i in range(count)
            )
        )
        paths.append(str(path))
    prefixes, counts = tokenize(corpus.find_spans(paths), tmp_path)
    assert counts.num_documents == 71
    whole = documents_of(corpus.load_share(prefixes, np.uint16, 0, 1, 3))
    shares = [
        documents_of(corpus.load_share(prefixes, np.uint16, part, 6, 3))
        for part in range(6)
    ]
    assert sorted(map(len, shares)) == [11, 12, 12, 12, 12, 12]
    assert sorted(d for share in shares for d in share) == sorted(whole)
    other = corpus.load_share(prefixes, np.uint16, 0, 6, 4)
    assert documents_of(other) != shares[0]


def test_take_and_join() -> None:
    # documents of two sentences, of one and of three
    block = corpus.Block(
        np.arange(11), np.array([1, 3, 2, 1, 1, 3]), np.array([2, 1, 3])
    )
    last = corpus.take(block, np.array([2]))
    none = corpus.take(block, np.array([], int))
    others = corpus.take(block, np.array([0, 1]))
    assert documents_of(corpus.concatenate([last, none, others])) == [
        [[6], [7], [8, 9, 10]],
        [[0], [1, 2, 3]],
        [[4, 5]],
    ]


def test_cards_go_on_where_the_span_before_stopped() -> None:
    parts = corpus.assign_shards(7, 5, 4, 3, seed=1)  # cards 4 to 8, of 3 parts
    assert sorted(parts.tolist()) == [0, 1, 1, 2, 2]
    assert corpus.assign_shards(7, 5, 4, 3, seed=1).tolist() == parts.tolist()


@pytest.mark.parametrize("line_ends", ["\n", "\r\n"])
def test_a_bad_byte_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line_ends: str
) -> None:
    monkeypatch.setattr(corpus, "BLOCK_BYTES", 8)
    path = tmp_path / "latin1.txt"
    text = "the sea\n\nold ship\n\nthe\ncafé\nzoo\n".replace("\n", line_ends)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(
        InputError, match=r"latin1.txt, line 6 is not UTF-8"
    ) as e:
        tokenize(corpus.find_spans([str(path)]), tmp_path)
    assert str(e.value).endswith("byte 0xe9 at column 4")


def test_a_file_that_is_not_packed(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_text("the sea")
    with pytest.raises(InputError, match=f"cannot read {path}: Not a gzipped"):
        tokenize([(Stretch(str(path), 0, None),)], tmp_path)
    os.remove(path)
    with pytest.raises(InputError, match=f"cannot read {path}: "):
        corpus.find_spans([str(path)])


def test_sentences_stay() -> None:
    assert TextFormat().to_sentences(b"a\xff. b.\n\nc") == b"a\xff. b.\n\nc"


@pytest.mark.parametrize("name", ["sentences", "paragraphs"])
def test_a_byte_order_mark_is_no_text(name: str) -> None:
    """A byte-level tokenizer would have tokens for it."""
    text = "\ufeffThe sea.\n".encode()
    assert TextFormat(name).to_sentences(text).strip() == b"The sea."
    line = '\ufeff{"text": "The sea."}\n'.encode() * 2
    assert TextFormat("jsonl").to_sentences(line) == b"The sea.\n\n" * 2


def test_paragraphs_by_hand() -> None:
    text = "Dr. Smith saw 3.5 ships. Really?  Yes!\nA zoo.\n \nThe sea. "
    found = TextFormat("paragraphs").to_sentences(text.encode()).decode()
    assert found.split("\n") == [
        "Dr. Smith saw 3.5 ships.",
        "Really?",
        "Yes!",
        "A zoo.",
        "",
        "The sea.",
        "",
    ]


def test_another_language() -> None:
    text = "你好。我很好!谢谢。".encode()
    found = TextFormat("paragraphs", language="zh").to_sentences(text)
    assert found.decode() == "你好。\n我很好!\n谢谢。\n"


@pytest.mark.parametrize("language", ["de", "DE", "de-DE", "de_AT", "nds"])
def test_a_language_by_its_other_codes(language: str) -> None:
    """sentencex relates Low German, nds, to German."""
    text = b"Das ist am 3. Mai bzw. heute. Ja."
    found = TextFormat("paragraphs", language=language).to_sentences(text)
    assert found.decode() == "Das ist am 3. Mai bzw. heute.\nJa.\n"


@pytest.mark.parametrize("language", ["german", "deu", "sv", ""])
def test_a_language_without_rules(language: str) -> None:
    with pytest.raises(InputError, match=f"`language={language}` has no rules"):
        TextFormat(language=language)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"text_field": "body"}, "`text_field=body` is for `input_format=json"),
        ({"language": "de"}, "`input_format=sentences` has one a line"),
    ],
)
def test_what_would_do_nothing_is_refused(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        TextFormat(**settings)


def test_an_empty_file_among_others_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / name) for name in ("full", "empty")]
    Path(paths[0]).write_text("Some text.\n")
    Path(paths[1]).touch()
    assert len(corpus.find_spans(paths)) == 1
    assert capsys.readouterr().err == f"WARNING: {paths[1]} is empty\n"


def test_languages_have_rules_of_their_own() -> None:
    cut = corpus.CUT_IN_ENGLISH
    like_english = [
        language
        for language in corpus.LANGUAGES
        if sentencex.segment(language, "".join(cut)) == cut
    ]
    assert like_english == ["en", "zh"]
    kept = [
        TextFormat("paragraphs", language=each).language
        for each in corpus.LANGUAGES
    ]
    assert tuple(kept) == corpus.LANGUAGES


def test_json_lines_by_hand() -> None:
    text = b'{"text": "A zoo. The\\nsea.\\n\\n"}\n\n{"text": ""}\n'
    found = TextFormat("jsonl").to_sentences(text)
    assert found == b"A zoo.\nThe\nsea.\n\n\n"


def test_returns_join_no_words() -> None:
    text = b"First\rline.\rThe\r\nsecond.\r\n\r\nEnd.\r"
    found = TextFormat("paragraphs").to_sentences(text)
    assert found == b"First line.\nThe\nsecond.\n\nEnd.\n"
    line = json.dumps({"text": text.decode()}).encode()
    found = TextFormat("jsonl").to_sentences(line)
    assert found == b"First\nline.\nThe\nsecond.\nEnd.\n\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_is_no_text(tmp_path: Path, mark: str) -> None:
    text, lines = tmp_path / "a.txt", tmp_path / "b.jsonl"
    text.write_text("\n{the sea}\n")
    lines.write_text(f'{mark}{{"body": "the sea\\nships"}}\n\n{{}}\n')
    paths = [str(text), str(lines)]
    for name in ("sentences", "paragraphs"):
        text_format = TextFormat(name)
        text_format.check(paths[:1])
        assert [*text_format.read(paths[:1])] == ["{the sea}\n"]
        with pytest.raises(
            InputError, match=r"b\.jsonl, line 1 looks like JSON, "
        ):
            text_format.check(paths)
        with pytest.raises(InputError, match="give `input_format=jsonl`, with"):
            [*text_format.read(paths)]
    for array in ('[{"body": "the sea"}]', '[\n {"body": "the sea"}]', "{\n}"):
        other = tmp_path / "c.json"
        other.write_text(f"{mark}{array}\n")
        with pytest.raises(
            InputError, match=r"c\.json, line 1 looks like JSON, and"
        ):
            TextFormat().check([str(other)])
    other.write_text("[1]\nthe sea\n")
    TextFormat().check([str(other)])
    text_format = TextFormat("jsonl", "body")
    text_format.check(paths[1:])
    with pytest.raises(InputError, match=r"a\.txt, line 2 is not JSON"):
        text_format.check(paths)
    texts = text_format.read(paths[1:])
    assert next(texts) == "the sea\nships"
    with pytest.raises(InputError, match=r"line 3 has no text in the field"):
        next(texts)


def test_half_a_sign() -> None:
    found = TextFormat("jsonl").to_sentences(b'{"text": "sea \\ud83d"}')
    assert found == b"sea ?\n\n"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"text": "a"', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["a"]', "has no text in the field `text_field=text`"),
        ('{"text": 3}', "has no text in the field `text_field=text`"),
    ],
)
def test_faulty_json(line: str, fault: str) -> None:
    with pytest.raises(LineError) as error:
        TextFormat("jsonl").to_sentences(f'{{"text": "a"}}\n{line}'.encode())
    assert error.value.number == 1
    assert error.value.fault.startswith(fault)

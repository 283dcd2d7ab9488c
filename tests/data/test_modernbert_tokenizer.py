"""ModernBERT's tokenizer: byte-level pieces, BERT's special tokens. Against
Hugging Face `tokenizers`, from a tokenizer.json with the parts of the released
one and few pieces."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from bert_keras.data.bpe import NEVER, ByteLevelBpe, clusters_of
from bert_keras.data.special_tokens import MODERNBERT, ROBERTA
from bert_keras.data.tokenizer_folder import (
    OpenedTokenizer,
    hugging_face_files,
    open_tokenizer,
    settings_json,
)
from bert_keras.errors import InputError
from bert_keras.files import copy_vocabulary
from tests.conftest import GOLDEN, forked

BYTE_LEVEL = GOLDEN / "byte_level"
SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
OTHERS = ("    ", "   ", "  ", "|||EMAIL_ADDRESS|||", "[unused0]")
LINES = [
    case["text"]
    for case in json.loads((BYTE_LEVEL / "expected.json").read_text("utf-8"))
    if "[MASK]" not in case["text"]  # which is text here, and a token there
] + [
    "cafe\u0301 A\u030angstro\u0308m \u2126",
    "a    b",
    "to |||EMAIL_ADDRESS|||.",
]


def released(folder: Path) -> Tokenizer:
    """Writes a tokenizer.json and a tokenizer_config.json."""
    vocab = json.loads((BYTE_LEVEL / "vocab.json").read_text("utf-8"))
    # As in the released one, bytes that no character has are not there.
    others = {*ROBERTA.tokens, *NEVER}
    pieces = [piece for piece in vocab if piece not in others]
    merges = [
        (line.split(" ")[0], line.split(" ")[1])
        for line in (BYTE_LEVEL / "merges.txt").read_text("utf-8").splitlines()
        if line and not line.startswith("#version")
    ]
    library = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(pieces)}, merges)
    )
    library.normalizer = normalizers.NFC()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    first = len(pieces)
    cls, sep = first + 1, first + 2
    library.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    values = json.loads(library.to_str())
    values["added_tokens"] = [
        {
            "id": first + i,
            "content": content,
            "single_word": False,
            "lstrip": content == "[MASK]",
            "rstrip": False,
            "normalized": content not in SPECIAL,
            "special": content in SPECIAL,
        }
        for i, content in enumerate(SPECIAL + OTHERS)
    ]
    folder.mkdir(exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(values))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 8192,
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text('{"model_type": "modernbert"}')
    return Tokenizer.from_file(str(path))


def opened(folder: Path) -> OpenedTokenizer:
    found = open_tokenizer(str(folder))
    assert found is not None
    return found


@pytest.fixture
def theirs(tmp_path: Path) -> Tokenizer:
    return released(tmp_path / "theirs")


def check_same(folder: Path, library: Tokenizer) -> None:
    tokenizer = opened(folder).load()
    assert isinstance(tokenizer, ByteLevelBpe)
    assert tokenizer.special_tokens == MODERNBERT
    batch = tokenizer.encode_batch(LINES)
    for text, ids in zip(LINES, batch, strict=True):
        expected = library.encode(text, add_special_tokens=False)
        assert ids == expected.ids, text
        pieces = tokenizer.tokenize(text)
        assert tokenizer.convert_tokens_to_ids(pieces) == ids
        spans = tokenizer.tokenize_with_offsets(text)
        assert [span.token for span in spans] == pieces
        if not unicodedata.is_normalized("NFC", text):
            continue  # the library's leave accents out
        found = [text[start:end].strip() for _, start, end in spans]
        said = [text[start:end].strip() for start, end in expected.offsets]
        assert found == said, text


def test_pieces_are_those_of_the_library(
    tmp_path: Path, theirs: Tokenizer
) -> None:
    check_same(tmp_path / "theirs", theirs)


def test_as_a_model_folder_and_back(tmp_path: Path, theirs: Tokenizer) -> None:
    """Google's form has the vocabulary's two files, Hugging Face's all."""
    tokenizer = opened(tmp_path / "theirs")
    ours = tmp_path / "ours"
    ours.mkdir()
    copy_vocabulary(tokenizer.vocab_file, str(ours))
    (ours / "tokenizer_config.json").write_text(settings_json(tokenizer))
    check_same(ours, theirs)
    back = tmp_path / "back"
    back.mkdir()
    (back / "config.json").write_text("{}")
    copy_vocabulary(tokenizer.vocab_file, str(back))
    written = hugging_face_files(opened(ours), 8192, has_segments=False)
    for name, text in written.items():
        (back / name).write_text(text)
    library = Tokenizer.from_file(str(back / "tokenizer.json"))
    check_same(back, library)
    for text in (*LINES, "the [MASK] sea", "a [PAD]b"):
        assert library.encode(text).ids == theirs.encode(text).ids, text
    pair = library.encode("the sea", "an old ship")
    assert pair.ids == theirs.encode("the sea", "an old ship").ids
    config = json.loads(written["tokenizer_config.json"])
    assert config["model_input_names"] == ["input_ids", "attention_mask"]


# Letters, accents, the sign for Kelvin, parts of Korean and Tamil letters
COMPOSING = "ae \u0301\u0323\u0305\u0308\u212a\u1100\u1161\u11a8\u0bc6\u0bd7"


@given(st.text(st.sampled_from(COMPOSING), max_size=9))
def test_characters_that_are_composed(text: str) -> None:
    clusters = [*clusters_of(text)]
    assert [i for own in clusters for i in own] == [*range(len(text))]
    parts = [text[own.start : own.stop] for own in clusters]
    composed = [unicodedata.normalize("NFC", part) for part in parts]
    assert "".join(composed) == unicodedata.normalize("NFC", text)


def test_places_of_what_is_composed(tmp_path: Path) -> None:
    released(tmp_path / "theirs")
    tokenizer = opened(tmp_path / "theirs").load()
    text = "cafe\u0301 sea \u1100\u1161\u11a8!"
    spans = tokenizer.tokenize_with_offsets(text)
    accent, *_, korean, mark = [text[start:end] for _, start, end in spans][-9:]
    assert mark == "!"
    assert korean == "\u1100\u1161\u11a8"
    assert "e\u0301" in [text[start:end] for _, start, end in spans]


@pytest.mark.parametrize(
    ("part", "change", "sentence"),
    [
        ("normalizer", None, "normalizer has type = None"),
        ("normalizer", {"type": "NFKC"}, "normalizer has type = 'NFKC'"),
        ("pre_tokenizer", {"type": "Whitespace"}, "type = 'Whitespace'"),
        ("post_processor", None, "post_processor has type = None"),
        (
            "post_processor",
            {"type": "RobertaProcessing"},
            "post_processor has type = 'RobertaProcessing'",
        ),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": [], "pair": []},
            "its single template is",
        ),
    ],
)
@pytest.mark.usefixtures("theirs")
def test_another_is_refused(
    tmp_path: Path, part: str, change: dict[str, Any] | None, sentence: str
) -> None:
    path = tmp_path / "theirs" / "tokenizer.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {part: change}))
    with pytest.raises(InputError, match=sentence):
        opened(tmp_path / "theirs")


@pytest.mark.usefixtures("theirs")
def test_records_are_made_with_it(tmp_path: Path) -> None:
    vocab_file = tmp_path / "theirs" / "tokenizer.json"
    (tmp_path / "text.txt").write_text("The old man.\nHe saw the sea.\n")
    common = f"--vocab_file={vocab_file}"
    forked(
        "create_pretraining_data.py",
        common,
        f"--input_file={tmp_path}/text.txt",
        f"--output_file={tmp_path}/records.tfrecord",
        "--sequence_format=full_sentences",
        "--max_seq_length=32",
        "--num_workers=1",
    )
    said = forked(
        "inspect_records.py", common, f"--input_file={tmp_path}/*.tfrecord"
    )
    assert "A: [CLS]" in said
    assert ".[SEP]" in said

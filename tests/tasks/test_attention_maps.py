"""Tests of tasks/attention_maps.py."""

import base64
import html.parser
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.tokenizers import load_tokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.attention_maps import (
    STEPS,
    AttentionMap,
    AttentionReader,
    _shown,
    to_html,
    to_png,
)
from tests.conftest import GOLDEN, TINY

HOSTILE = "</script><img src=x onerror=alert(1)>&<!--\u2028$x^$"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> AttentionReader:
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copytree(GOLDEN / "tiny_bert", folder, dirs_exist_ok=True)
    shutil.copy(GOLDEN / "tiny_vocab.txt", folder / "vocab.txt")
    return AttentionReader(str(folder))


def made_up(pieces: list[str]) -> AttentionMap:
    size = len(pieces)
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(size), (3, 5, size)).astype(np.float32)
    return AttentionMap(
        pieces, [False] * size, size, probs, False, " ".join(pieces), "a model"
    )


def test_a_pair_is_read_as_the_model_reads_it(reader: AttentionReader) -> None:
    attention = reader.read("the sea", "the captain", 16)
    assert attention.pieces[0] == "[CLS]"
    special_tokens = [i for i, x in enumerate(attention.is_mark) if x]
    size = len(attention.pieces)
    assert special_tokens == [0, attention.num_first - 1, size - 1]
    assert attention.probabilities.shape == (
        TINY.num_hidden_layers, TINY.num_attention_heads, size, size,
    )  # fmt: skip
    np.testing.assert_allclose(attention.probabilities.sum(-1), 1, atol=1e-5)
    assert not attention.is_cut
    alone = reader.read("the sea", None, 16)
    assert alone.num_first == len(alone.pieces) == attention.num_first


def test_long_texts_are_cut_and_empty_ones_refused(
    reader: AttentionReader,
) -> None:
    cut = reader.read("the sea " * 99, None, 5)
    assert (len(cut.pieces), cut.is_cut) == (5, True)
    longest = reader.read("the sea " * 99, "the", 999)
    assert len(longest.pieces) == TINY.max_position_embeddings
    with pytest.raises(InputError, match="nothing readable in `text"):
        reader.read(" \n", "the sea", 16)


def test_byte_level_pieces_are_shown_as_text() -> None:
    tokenizer = load_tokenizer(str(GOLDEN / "byte_level" / "vocab.json"))
    pieces = tokenizer.tokenize("a sea\n\U0001f600")
    shown = [_shown(piece, tokenizer) for piece in pieces]
    assert "".join(shown).startswith("a\u2423sea\u23ce")
    assert "\ufffd" not in "".join(shown)


class Scripts(html.parser.HTMLParser):
    """The elements of a page, and what is in its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.contents: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.contents.append(data)


class Frames(html.parser.HTMLParser):
    """Collects the pages in frames; a hostile text must make nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[str] = []

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        found = dict(attributes)
        assert tag == "iframe"
        assert found["sandbox"] == "allow-scripts"
        self.pages.append(found["srcdoc"] or "")


def test_a_page_holds_the_numbers_and_needs_no_network() -> None:
    attention = made_up(["[CLS]", "the", "##se", "[SEP]"])
    page = to_html(attention).decode()
    parser = Scripts()
    parser.feed(page)
    data = json.loads(parser.contents[0])
    assert data["pieces"] == attention.pieces
    assert data["shape"] == [3, 5, 4]
    counts = np.frombuffer(base64.b64decode(data["counts"]), "<u2")
    np.testing.assert_allclose(
        counts.reshape(3, 5, 4, 4) / STEPS,
        attention.probabilities,
        atol=0.5 / STEPS + 1e-7,
    )
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", page)
    assert not re.findall("https?:|url\\(|@import|innerHTML", page)
    assert "default-src 'none'" in page


def test_a_hostile_text_ends_no_script_and_makes_no_element() -> None:
    usual, hostile = Scripts(), Scripts()
    usual.feed(to_html(made_up(["a", "b", "c"])).decode())
    page = to_html(made_up([HOSTILE, "'\"`", "\\u003c"]))
    hostile.feed(page.decode())
    assert hostile.tags == usual.tags
    assert b"onerror" in page
    assert b"<img" not in page
    data = json.loads(hostile.contents[0])
    assert data["pieces"] == [HOSTILE, "'\"`", "\\u003c"]
    assert data["text"].startswith(HOSTILE)


def test_a_notebook_shows_the_page() -> None:
    attention = made_up([HOSTILE, "b"])
    frame = Frames()
    frame.feed(attention._repr_html_())
    assert frame.pages == [to_html(attention).decode()]


@pytest.mark.parametrize(
    ("layer", "head", "is_wide"),
    [(None, None, True), (1, None, True), (None, 4, False), (2, 0, None)],
)
def test_pictures(
    layer: int | None, head: int | None, is_wide: bool | None
) -> None:
    from matplotlib import image

    content = to_png(made_up(["$x^$", "\u6d77", "c"]), layer, head)
    assert content.startswith(b"\x89PNG")
    height, width, _ = image.imread(io.BytesIO(content)).shape
    assert is_wide is None or (width > height) == is_wide


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "tiny_bert", tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "bert_config.json").read_text())
    config["num_hidden_layers"] += 1
    (tmp_path / "bert_config.json").write_text(json.dumps(config))
    shutil.copy(GOLDEN / "tiny_vocab.txt", tmp_path / "vocab.txt")
    with pytest.raises(InputError, match="has no bert/encoder/layer_3"):
        AttentionReader(str(tmp_path))

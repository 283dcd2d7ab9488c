"""Folders' tokenizers, beside Hugging Face's library on the same files."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.data.tokenizer_folder import (
    OpenedTokenizer,
    TokenizerOptions,
    hugging_face_files,
    open_tokenizer,
    settings_json,
)
from bert_keras.data.tokenizers import TokenizerSettings
from bert_keras.errors import InputError
from tests.conftest import GOLDEN

LINES = [
    "The captain saw the sea, and the sea saw him.",
    "CAFÉ café Ångström naïve İstanbul ıssız Größe",
    "東京は日本の首都です。 北京 sea",
    "Привет мир. Η θάλασσα. שלום हिन्दी ไทย 한국어 العربية",
    "e\u0301 a\u200bb \ue000sea\ue001 so\u00adft \ufffd x\u2028y a\x07b",
    "[E1] captain [/E1] saw <user> and <user>s, x<user> [e1] <USER>",
    "covid19 COVID19 covid19s Covid19 ca\tsea\nline",
    "captain" * 3 + " " + "sea" * 9 + " a" * 30,
    "\U0001f600 sea \U0001f1e9\U0001f1ea ☃ ♥",
    "  ",
]
WORDS = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] the captain saw sea and him The"
    " cafe café Café angstrom 東 京 は 北 東京 covid # ##1 ##9 19 < user > s x"
    " e ##a ##s ##sea ##captain a ##e ##\u0301 , . [ ] / e1 ca ##p ##ta ##in"
).split()
ADDED = [
    AddedToken("[E1]", special=True),
    AddedToken("[/E1]", special=True),
    AddedToken("<user>", single_word=True),
    AddedToken("covid19"),
    AddedToken("sea", normalized=False, rstrip=True, lstrip=True),
    AddedToken("\n", normalized=False),
]


def word_pieces(
    folder: Path, added: list[AddedToken], longest: int = 100, **options: Any
) -> Tokenizer:
    """The library's tokenizer, saved to the folder."""
    vocab = {word: number for number, word in enumerate(WORDS)}
    library = Tokenizer(
        models.WordPiece(
            vocab, unk_token="[UNK]", max_input_chars_per_word=longest
        )
    )
    library.normalizer = normalizers.BertNormalizer(clean_text=True, **options)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 3), ("[SEP]", 4)],
    )
    library.add_tokens(added)
    library.save(str(folder / "tokenizer.json"))
    return library


def opened(folder: Path, *args: Any) -> OpenedTokenizer:
    found = open_tokenizer(str(folder), *args)
    assert found is not None
    return found


def compare(ours: OpenedTokenizer, library: Tokenizer) -> None:
    tokenizer = ours.load()
    for line in LINES:
        expected = library.encode(line, add_special_tokens=False)
        tokens = tokenizer.tokenize(line)
        assert tokens == [library.id_to_token(i) for i in expected.ids], line
        assert tokenizer.convert_tokens_to_ids(tokens) == expected.ids
        spans = tokenizer.tokenize_with_offsets(line)
        assert [span.token for span in spans] == tokens
        assert all(0 <= s.start <= s.end <= len(line) for s in spans)
    inverse = tokenizer.convert_ids_to_tokens(range(len(tokenizer.inv_vocab)))
    assert inverse == [library.id_to_token(i) for i in range(len(inverse))]


@pytest.mark.parametrize(
    ("lowercase", "strip_accents", "chinese", "longest"),
    [
        (True, None, True, 100),
        (True, False, True, 7),
        (False, None, False, 100),
        (False, True, True, 20),
    ],
)
@pytest.mark.parametrize("added", [[], ADDED])
def test_word_pieces_are_the_librarys(
    tmp_path: Path,
    lowercase: bool,
    strip_accents: bool | None,
    chinese: bool,
    longest: int,
    added: list[AddedToken],
) -> None:
    library = word_pieces(
        tmp_path,
        added,
        longest,
        lowercase=lowercase,
        strip_accents=strip_accents,
        handle_chinese_chars=chinese,
    )
    ours = opened(tmp_path)
    compare(ours, library)
    # to Google's folder and back to Hugging Face's nothing is lost
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    (there / "vocab.txt").write_bytes(Path(ours.vocab_file).read_bytes())
    (there / "tokenizer_config.json").write_text(settings_json(ours))
    again = opened(there)
    assert again.settings == ours.settings
    compare(again, library)
    back.mkdir()
    (back / "vocab.txt").write_bytes(Path(ours.vocab_file).read_bytes())
    for name, text in hugging_face_files(again, 512).items():
        (back / name).write_text(text)
    theirs = Tokenizer.from_file(str(back / "tokenizer.json"))
    compare(opened(back), theirs)
    for line in LINES:
        expected = library.encode(line, "the sea")
        found = theirs.encode(line, "the sea")
        assert (found.ids, found.type_ids) == (expected.ids, expected.type_ids)


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_byte_level_tokens_are_the_librarys(
    tmp_path: Path, add_prefix_space: bool
) -> None:
    files = [
        str(GOLDEN / "byte_level" / n) for n in ("vocab.json", "merges.txt")
    ]
    library = Tokenizer(models.BPE.from_file(*files))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space)
    library.decoder = decoders.ByteLevel()
    library.add_tokens(ADDED)
    library.save(str(tmp_path / "tokenizer.json"))
    ours = opened(tmp_path)
    assert ours.settings.add_prefix_space is add_prefix_space
    compare(ours, library)
    tokenizer = ours.load()
    line = LINES[5]
    text = tokenizer.to_text(tokenizer.tokenize(line))
    assert text.removeprefix(" " * add_prefix_space) == line
    there = tmp_path / "there"
    there.mkdir()
    for name in ("vocab.json", "merges.txt"):
        content = (Path(ours.vocab_file).parent / name).read_bytes()
        (there / name).write_bytes(content)
    (there / "tokenizer_config.json").write_text(settings_json(ours))
    assert opened(there).settings == ours.settings
    compare(opened(there), library)


def folder_with(path: Path, words: str, **values: dict[str, Any]) -> Path:
    """A vocab.txt, and JSON files by their names without the ending."""
    special_tokens = "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK]".split()
    path.mkdir(parents=True, exist_ok=True)
    (path / "vocab.txt").write_text(
        "".join(f"{word}\n" for word in [*special_tokens, *words.split()]),
        "utf-8",
    )
    for name, content in values.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "kind", ["PreTrainedTokenizerFast", "TokenizersBackend"]
)
def test_a_generic_class_follows_tokenizer_json(
    tmp_path: Path, kind: str
) -> None:
    """As transformers, whose class has no settings of a normalizer."""
    library = word_pieces(tmp_path, [], 20, lowercase=True, strip_accents=None)
    others = {
        "do_lower_case": False, "strip_accents": False,
        "tokenize_chinese_chars": False, "max_input_chars_per_word": 3,
    }  # fmt: skip
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**others, "tokenizer_class": kind}))
    compare(opened(tmp_path), library)
    path.write_text(json.dumps({**others, "tokenizer_class": "BertTokenizer"}))
    assert opened(tmp_path).settings.do_lower_case is False


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_who_says_what_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user, then task.json, tokenizer_config.json, Google's release."""
    cased = {"do_lower_case": False}
    numbers = itertools.count()

    def settings(
        options: TokenizerOptions | None = None, **values: dict[str, Any]
    ) -> TokenizerSettings:
        folder = tmp_path / str(next(numbers))
        return opened(
            folder_with(folder, "sea", **values), None, options
        ).settings

    assert settings() == TokenizerSettings()
    assert settings(config={}) == TokenizerSettings(
        remove_private_use=True, max_input_chars_per_word=100
    )
    assert settings(config={}, bert_config={}) == TokenizerSettings()
    assert settings(tokenizer_config=cased).do_lower_case is False
    upper = {"do_lower_case": True, "strip_accents": False}
    both = settings(tokenizer_config=cased, task=upper)
    assert (both.do_lower_case, both.strip_accents) == (True, False)
    assert said(capsys) == ""
    given = TokenizerOptions(do_lower_case=False)
    both = settings(given, task=upper)
    assert (both.do_lower_case, both.strip_accents) == (False, False)
    sentence = "do_lower_case is False as given; "
    assert sentence in said(capsys)
    settings(given, tokenizer_config=cased)
    assert said(capsys) == ""
    with pytest.raises(InputError, match="do_lower_case = 'no'; expected bool"):
        settings(tokenizer_config={"do_lower_case": "no"})


def test_the_case_that_nothing_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Google's folders' names, with and without a slash or a checkpoint's name
    for end in ("", "/", "/bert_model.ckpt"):
        name = tmp_path / "cased_L-12_H-768_A-12"
        folder_with(name, "sea")
        found = opened(f"{name}{end}")  # type: ignore[arg-type]
        assert found.is_stated and found.settings.do_lower_case is False
        with pytest.raises(InputError, match="is a cased model but"):
            opened(f"{name}{end}", None, TokenizerOptions(True))  # type: ignore[arg-type]
    assert said(capsys) == ""
    # capitals: of fewer than one token in twenty, then of more
    lower = " ".join(f"word{i}" for i in range(60))
    opened(folder_with(tmp_path / "few", f"{lower} Sea Ship"))
    assert said(capsys) == ""
    many = folder_with(tmp_path / "many", f"{lower} Sea Ship Sail A")
    found = opened(many)
    assert found.settings.do_lower_case is True  # Google's default
    assert "taken to be True, as in google-research/bert" in said(capsys)
    assert "do_lower_case" not in json.loads(settings_json(found))
    cased = open_tokenizer(str(many), tells_case=True)
    assert cased is not None and cased.settings.do_lower_case is False
    assert "do_lower_case is taken to be False" in said(capsys)
    assert json.loads(settings_json(cased))["do_lower_case"] is False
    (many / "config.json").write_text("{}")  # transformers has a default, too
    theirs = open_tokenizer(str(many), tells_case=True)
    assert theirs is not None and theirs.settings.do_lower_case is True


def test_the_model_says_what_another_vocabulary_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = folder_with(
        tmp_path / "model", "sea", tokenizer_config={"do_lower_case": False}
    )
    other = folder_with(
        tmp_path / "other", "ship", tokenizer_config={"strip_accents": True}
    )
    found = opened(model, str(other / "vocab.txt"))
    assert found.vocab_file == str(other / "vocab.txt")
    settings = found.settings
    assert (settings.do_lower_case, settings.strip_accents) == (False, True)
    assert said(capsys) == ""
    # what both say: the model's counts, which is said, or the option
    upper = folder_with(
        tmp_path / "upper", "ship", tokenizer_config={"do_lower_case": True}
    )
    vocab_file = str(upper / "vocab.txt")
    given = opened(model, vocab_file, TokenizerOptions(do_lower_case=True))
    assert given.settings.do_lower_case is True
    assert "; upper" not in said(capsys).replace(f"{tmp_path}/", "")
    assert opened(model, vocab_file).settings.do_lower_case is False
    assert said(capsys).replace(f"{tmp_path}/", "") == (
        "tokenizer: do_lower_case is False as model/tokenizer_config.json "
        "says; upper/tokenizer_config.json says True\n"
    )
    assert open_tokenizer(None) is None
    assert open_tokenizer(str(tmp_path)) is None


def test_tokens_of_a_released_vocabulary_are_kept_whole_on_demand(
    tmp_path: Path,
) -> None:
    folder = folder_with(tmp_path, "[E1] [ e ##1 ] sea")
    assert opened(folder).load().tokenize("[E1] sea") == "[ e ##1 ] sea".split()
    options = TokenizerOptions(additional_special_tokens=["[E1]"])
    found = opened(folder, None, options)
    assert found.load().tokenize("[E1] sea") == ["[E1]", "sea"]
    (folder / "tokenizer_config.json").write_text(settings_json(found))
    assert opened(folder).load().tokenize("[E1] sea") == ["[E1]", "sea"]
    options = TokenizerOptions(additional_special_tokens=["[E2]"])
    with pytest.raises(InputError, match="'.E2.', which is not in the vocab"):
        opened(folder, None, options)


def test_special_tokens_listed_without_ids(tmp_path: Path) -> None:
    """What vocab.txt lacks has an id in added_tokens.json, or the next one."""
    folder = folder_with(
        tmp_path,
        "[E1] sea",
        tokenizer_config={"additional_special_tokens": ["[E1]", "[E3]"]},
        added_tokens={"[E2]": 8},
    )
    tokenizer = opened(folder).load()
    tokens = tokenizer.tokenize("[E3] [E1] sea [E2]")
    assert tokenizer.convert_tokens_to_ids(tokens) == [9, 6, 7, 8]


def test_the_flags_of_an_added_token_are_those_of_the_decoder(
    tmp_path: Path,
) -> None:
    """added_tokens.json has ids alone, of tokens that are looked for in lower
    case unless they are special."""
    tokens = {"<User>": 8, "[E1]": 9}
    folder = folder_with(
        tmp_path,
        "sea ship",
        added_tokens=tokens,
        tokenizer_config={"additional_special_tokens": ["[E1]"]},
    )
    text = "<user> [e1] [E1]"
    expected = "<User> [UNK] [UNK] [UNK] [E1]".split()
    assert opened(folder).load().tokenize(text) == expected
    exact = {"content": "<User>", "normalized": False}
    folder_with(
        tmp_path,
        "sea ship",
        tokenizer_config={"added_tokens_decoder": {"8": exact}},
    )
    assert opened(folder).load().tokenize("<user>") == ["[UNK]"] * 3


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        ({"[E1]": 10_000_000}, r"token '\[E1\]' with the id 10000000"),
        ({"[E1]": -1}, r"token '\[E1\]' with the id -1"),
        ({"x" * 20_000: 8}, "token 'x{60}' with the id 8"),
        ({"\ud800": 8}, "surrogates not allowed"),
        ({"[E1]": 0}, r"'\[PAD\]' as token 0, where .* have '\[E1\]'; expect"),
        ({"[E1]": 6}, r"'sea' as token 6, where .* have '\[E1\]'; expected"),
    ],
)
def test_an_added_token_that_cannot_be_is_named(
    tmp_path: Path, added: dict[str, int], sentence: str
) -> None:
    """Nor does a large id fill the memory with the lines before it."""
    folder = folder_with(tmp_path, "sea ship", added_tokens=added)
    with pytest.raises(InputError, match=sentence) as caught:
        open_tokenizer(str(folder))
    assert len(str(caught.value)) < 500


def test_an_added_token_may_take_an_unused_place(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "sea", added_tokens={"[E1]": 1})
    tokenizer = opened(folder).load()
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize("[E1]")) == [1]


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(10**12, "id 1000000000000"), (-1, "id -1"), (2, "two of its tokens")],
)
def test_a_vocabulary_with_ids_that_cannot_be_is_refused(
    tmp_path: Path, number: int, sentence: str
) -> None:
    word_pieces(tmp_path, [], lowercase=True)
    path = tmp_path / "tokenizer.json"
    values = json.loads(path.read_text("utf-8"))
    values["model"]["vocab"]["zzz"] = number
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"tokenizer.json .*{sentence}"):
        open_tokenizer(str(tmp_path))


BPE = {"type": "BPE", "vocab": {}, "merges": []}


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("tokenizer_config", {"tokenizer_class": "AlbertTokenizer"}, "Albert"),
        ("tokenizer_config", {"word_tokenizer_type": "mecab"}, "mecab"),
        ("tokenizer_config", {"truncation_side": "left"}, "truncation_side"),
        ("tokenizer", {"truncation": {"direction": "Left"}}, "direction"),
        ("tokenizer_config", {"subword_tokenizer_type": "character"}, "char"),
        ("tokenizer_config", {"do_basic_tokenize": False}, "do_basic"),
        ("tokenizer_config", {"cls_token": "<s>"}, "cls_token is '<s>'"),
        (
            "tokenizer_config",
            {"added_tokens_decoder": {"x": {}}},
            "invalid lit",
        ),
        ("tokenizer", {"model": {"type": "Unigram"}}, "a Unigram model"),
        ("tokenizer", {"model": None}, "does not describe the tokenizer"),
        ("tokenizer", {"normalizer": {"type": "NFC"}}, "type = 'NFC'"),
        ("tokenizer", {"normalizer": None}, "normalizer has type = None"),
        ("tokenizer", {"pre_tokenizer": {"type": "Metaspace"}}, "Metaspace"),
        (
            "tokenizer",
            {"model": BPE, "normalizer": {"type": "NFC"}},
            "normalizer has type = 'NFC'",
        ),
    ],
)
def test_other_tokenizers_are_refused_by_name(
    tmp_path: Path, name: str, change: dict[str, Any], sentence: str
) -> None:
    values: dict[str, Any] = {}
    if name == "tokenizer":
        word_pieces(tmp_path, [], lowercase=True)
        values = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    (tmp_path / f"{name}.json").write_text(json.dumps(values | change))
    if name == "tokenizer_config":
        folder_with(tmp_path, "sea")
    with pytest.raises(InputError, match=sentence):
        open_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("model", "continuing_subword_prefix", "@@"),
        ("model", "unk_token", "<unk>"),
        ("normalizer", "clean_text", False),
    ],
)
def test_a_setting_that_cannot_be_had_is_refused_by_name(
    tmp_path: Path, part: str, key: str, value: object
) -> None:
    word_pieces(tmp_path, [], lowercase=True)
    path = tmp_path / "tokenizer.json"
    values = json.loads(path.read_text("utf-8"))
    values[part][key] = value
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"{part} has {key} = {value!r}"):
        open_tokenizer(str(tmp_path))


def test_another_template_is_refused(tmp_path: Path) -> None:
    library = word_pieces(tmp_path, [], lowercase=True)
    library.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 3), ("[SEP]", 4)],
    )
    library.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="pair template"):
        open_tokenizer(str(tmp_path))


def test_two_vocabularies_that_disagree_are_refused(tmp_path: Path) -> None:
    word_pieces(tmp_path, [], lowercase=True)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]), "utf-8")
    assert opened(tmp_path).load().vocab["sea"] == WORDS.index("sea")
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:-2], "in"]), "utf-8")
    with pytest.raises(InputError, match="disagree: token [0-9]+ is"):
        open_tokenizer(str(tmp_path))


def test_settings_reach_the_fast_path(tmp_path: Path) -> None:
    """Blocks of lines, as create_pretraining_data.py reads them."""
    from bert_keras.data.fast_tokenization import LineTokenizer

    for number, (added, longest) in enumerate([([], 7), (ADDED, 100)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        word_pieces(folder, added, longest, lowercase=False)
        tokenizer = opened(folder).load()
        assert isinstance(tokenizer, FullTokenizer)
        lines = [line.replace("\n", " ") for line in LINES]
        block = LineTokenizer(tokenizer).encode("\n".join(lines).encode())
        expected = [
            number
            for line in lines
            for number in tokenizer.convert_tokens_to_ids(
                tokenizer.tokenize(line)
            )
        ]
        assert block.ids.tolist() == expected


def test_settings_are_json() -> None:
    settings = dataclasses.replace(TokenizerSettings(), strip_accents=True)
    assert json.loads(json.dumps(settings.to_json()))["strip_accents"] is True

"""The tokenizer that a model folder describes, with all of its settings.

Of a setting the first of these counts: the user's option; task.json;
tokenizer_config.json; tokenizer.json; the name of a model that Google released;
the default, which is Google's in Google's folders and Hugging Face's in theirs.
A tokenizer that is not BERT's, RoBERTa's or ModernBERT's is refused by name.

Names in the files: transformers tokenization_utils_base.py and
tokenization_bert.py; tokenizers' serialization of its models.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras import files
from bert_keras.data.added_tokens import AddedToken
from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.special_tokens import (
    BERT,
    MODERNBERT,
    ROBERTA,
    SpecialTokens,
    byte_level_tokens,
)
from bert_keras.data.tokenization import (
    released_case,
    validate_case_matches_checkpoint,
)
from bert_keras.data.tokenizers import (
    Tokenizer,
    TokenizerSettings,
    check_any_vocabulary,
    load_tokenizer,
)
from bert_keras.data.vocabulary import MAX_PIECE_CHARS, MAX_PIECES, cased_share
from bert_keras.errors import InputError, say_once

TOKENIZER_CONFIG, TOKENIZER = "tokenizer_config.json", "tokenizer.json"
TASK, ADDED = "task.json", "added_tokens.json"
VOCABULARIES = files.VOCABULARY, files.BYTE_LEVEL, TOKENIZER
CASE = "do_lower_case", "strip_accents"
# Settings by their names in tokenizer_config.json, and their types.
SETTINGS: Mapping[str, tuple[type, ...]] = {
    "do_lower_case": (bool,),
    "strip_accents": (bool, type(None)),
    "tokenize_chinese_chars": (bool,),
    "remove_private_use": (bool,),
    "max_input_chars_per_word": (int,),
    "add_prefix_space": (bool,),
}
# Where tokenizer.json has them: a part, and the name there.
IN_TOKENIZER = {
    "do_lower_case": ("normalizer", "lowercase"),
    "tokenize_chinese_chars": ("normalizer", "handle_chinese_chars"),
    "max_input_chars_per_word": ("model", "max_input_chars_per_word"),
    "add_prefix_space": ("pre_tokenizer", "add_prefix_space"),
}
# Defaults of transformers.
HUGGING_FACE = {"max_input_chars_per_word": 100, "remove_private_use": True}
# Classes of transformers that tokenize as a family here does. Generic ones
# follow tokenizer.json, whatever tokenizer_config.json says of the same.
GENERIC = "PreTrainedTokenizer", "TokenizersBackend"
CLASSES = (
    "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer",
    "RobertaTokenizer", *GENERIC,
)  # fmt: skip
EXTRA_TOKENS = "additional_special_tokens", "extra_special_tokens"
CASED_SHARE = 0.05  # share of tokens with capitals in cased vocabularies
UNUSED = re.compile(r"\[(unused|token )\d+\]")  # a token may take their places
_folders: dict[bytes, str] = {}  # temporary ones, by what is in them
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclasses.dataclass(frozen=True)
class TokenizerOptions:
    """Settings that a user gives; they override those of a folder."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    additional_special_tokens: Sequence[str] = ()  # tokens of the vocabulary


class OpenedTokenizer(NamedTuple):
    vocab_file: str  # on this machine; lists the added tokens, too
    settings: TokenizerSettings
    is_stated: bool  # whether the case is known, and not assumed
    vocab: Mapping[str, int]  # token -> id

    @property
    def special_tokens(self) -> SpecialTokens:
        is_byte_level = files.is_byte_level(self.vocab_file)
        return byte_level_tokens(self.vocab) if is_byte_level else BERT

    def load(self) -> Tokenizer:
        return load_tokenizer(self.vocab_file, self.settings)


def open_tokenizer(
    model: str | None,
    vocab_file: str | None = None,
    options: TokenizerOptions | None = None,
    tells_case: bool = False,
) -> OpenedTokenizer | None:
    """Finds the tokenizer of a model, or that of a vocabulary alone.

    Prints to stderr what it assumes, and which setting of a folder an option
    overrides.

    Args:
        model: a model folder, or a file or checkpoint in one; also on gs://.
        vocab_file: overrides the vocabulary beside `model`. Settings are those
            of `model`, or of the folder of `vocab_file` where it has none.
        tells_case: guess the case from the vocabulary's capitals if nothing in
            a folder of Google's form states it; otherwise it is the default,
            lower case.

    Returns:
        None where neither has a vocabulary.

    Raises:
        InputError: a file is damaged, or the tokenizer is of another kind.
    """
    options = options or TokenizerOptions()
    path = vocab_file or (model and files.beside(model, VOCABULARIES))
    if not path:
        return None
    said = _Statements()
    for place in filter(None, (vocab_file, model)):
        before = dict(said.values)
        _read_statements(place, said)
        for name in CASE:
            if getattr(options, name) is not None or name not in before:
                continue
            one, source = said.values[name]
            other, other_source = before[name]
            if other != one:
                say_once(
                    f"tokenizer: {name} is {one} as {source} says; "
                    f"{other_source} says {other}"
                )
    is_own = not (model and vocab_file)
    vocab_file, vocab = _complete_vocabulary(path, said, is_own)
    for content in options.additional_special_tokens:
        if content not in vocab:
            raise InputError(
                f"additional_special_tokens has {content!r}, which is not in "
                f"the vocabulary {path}; expected one of its tokens, such as "
                "one in the place of an [unused] token"
            )
        said.added[content] = AddedToken(
            content, vocab[content], special=True, is_word_piece=True
        )

    values = {name: value for name, (value, _) in said.values.items()}
    for name in CASE:
        given = getattr(options, name)
        if given is None:
            continue
        stated, source = said.values.get(name, (given, ""))
        if stated != given:
            say_once(
                f"tokenizer: {name} is {given} as given; {source} says {stated}"
            )
        values[name] = given
    if options.do_lower_case is not None:
        validate_case_matches_checkpoint(options.do_lower_case, model)
    for named in (model, path):
        if (case := released_case(named or "")) is not None:
            values.setdefault("do_lower_case", case)
    is_stated = "do_lower_case" in values or files.is_byte_level(vocab_file)
    if not is_stated and (share := cased_share(vocab)) >= CASED_SHARE:
        is_guessed = tells_case and not said.is_hugging_face
        values["do_lower_case"] = not is_guessed
        assumed = "True, as in google-research/bert"
        say_once(
            f"tokenizer: {share:.0%} of the tokens in {path} have capitals, "
            "and nothing says whether the model is cased: do_lower_case is "
            f"taken to be {'False' if is_guessed else assumed}; give "
            "`do_lower_case` to say what it is"
        )
    settings = TokenizerSettings(
        **values, added_tokens=tuple(said.added.values())
    )
    # What is guessed by request is stored with the model, as what is stated.
    is_stated = is_stated or tells_case
    return OpenedTokenizer(vocab_file, settings, is_stated, vocab)


@dataclasses.dataclass
class _Statements:
    """What folders state about their tokenizer; later statements count."""

    # settings, each with the file that has it
    values: dict[str, tuple[Any, str]] = dataclasses.field(default_factory=dict)
    added: dict[str, AddedToken] = dataclasses.field(default_factory=dict)
    # special tokens that are listed without their ids
    named: list[str] = dataclasses.field(default_factory=list)
    is_hugging_face: bool = False  # the form of the folder
    # added tokens that say whether they are word pieces
    completed: set[str] = dataclasses.field(default_factory=set)

    def say(self, values: Mapping[str, Any], source: str) -> None:
        for name, expected in SETTINGS.items():
            if name not in values:
                continue
            if type(values[name]) not in expected:
                kinds = " or ".join(kind.__name__ for kind in expected)
                raise InputError(
                    f"{source} has {name} = {values[name]!r}; expected {kinds}"
                )
            self.values[name] = values[name], source


def _read_statements(path: str, said: _Statements) -> None:
    """Adds what the folder states that `path` is, or lies in.

    Later ones count: Hugging Face's defaults, where the folder has its form;
    tokenizer.json; tokenizer_config.json; task.json. Of an added token:
    added_tokens.json, tokenizer_config.json, tokenizer.json.
    """
    tokenizer_file, tokenizer = _read(path, TOKENIZER)
    config_file, config = _read(path, TOKENIZER_CONFIG)
    listed_file, listed = _read(path, ADDED)
    task_file, task = _read(path, TASK)
    said.is_hugging_face = bool(
        files.beside(path, ["config.json"])
    ) and not files.beside(path, ["bert_config.json"])
    if config_file or tokenizer_file or said.is_hugging_face:
        said.say(HUGGING_FACE, "Hugging Face")
    special_tokens = BERT
    if not files.beside(path, [files.VOCABULARY]):
        own = files.beside(path, [files.BYTE_LEVEL])
        vocab = check_any_vocabulary(files.local(own, True)) if own else ()
        special_tokens = byte_level_tokens(vocab)
    if tokenizer_file:
        with _naming(tokenizer_file):
            special_tokens = _check_tokenizer(tokenizer)
            _check_same_tokens(path, tokenizer)
            values = {
                name: value
                for name, (part, key) in IN_TOKENIZER.items()
                if (value := (tokenizer.get(part) or {}).get(key)) is not None
            }
            if normalizer := tokenizer.get("normalizer"):
                values["strip_accents"] = normalizer.get("strip_accents")
            said.say(values, tokenizer_file)
    named = []
    if config_file:
        with _naming(config_file):
            kind = _check_config(config, special_tokens, bool(tokenizer_file))
            values = config
            if tokenizer_file and kind in GENERIC:
                unread = {*IN_TOKENIZER, "strip_accents"} - {"add_prefix_space"}
                values = {k: x for k, x in config.items() if k not in unread}
            said.say(values, config_file)
            for name in EXTRA_TOKENS:
                extra = config.get(name) or ()
                extra = extra.values() if isinstance(extra, dict) else extra
                named += [_token(token, 0).content for token in extra]
    with _naming(listed_file):
        tokens = [
            dataclasses.replace(
                _token(content, number),
                special=content in named,
                normalized=content not in named,
            )
            for content, number in listed.items()
        ]
    with _naming(config_file):
        decoder = config.get("added_tokens_decoder") or {}
        tokens += [_token(token, int(key)) for key, token in decoder.items()]
        said.completed |= {
            token["content"]
            for token in decoder.values()
            if "is_word_piece" in token
        }
    with _naming(tokenizer_file):
        tokens += [
            _token(token, token["id"])
            for token in tokenizer.get("added_tokens") or ()
        ]
    # As in Google's code, "[MASK]" in a text is three tokens like any others.
    pieces = special_tokens.tokens
    said.added |= {t.content: t for t in tokens if t.content not in pieces}
    said.named += [name for name in named if name not in pieces]
    said.say({name: task[name] for name in CASE if name in task}, task_file)


def _read(path: str, name: str) -> tuple[str, dict[str, Any]]:
    """The path and the object of a JSON file beside `path`; both empty without
    one."""
    file = files.beside(path, [name])
    return (file, files.read_json(file)) if file else ("", {})


@contextlib.contextmanager
def _naming(file: str) -> Iterator[None]:
    """Names the file in which something is not as in tokenizers like BERT's."""
    try:
        yield
    except MALFORMED as error:
        raise InputError(
            f"{file} does not describe the tokenizer of a BERT, RoBERTa or "
            f"ModernBERT ({error})"
        ) from error


def _token(value: Any, number: int) -> AddedToken:
    """From its text alone, or an object with its flags."""
    if isinstance(value, str):
        value = {"content": value, "special": True}
    content = str(value["content"] or "")
    _check_token(content, number)
    flags = {
        field.name: bool(value.get(field.name, False))
        for field in dataclasses.fields(AddedToken)
        if field.type in (bool, "bool")
    }
    return AddedToken(content, number, **flags)


def _check_token(content: str, number: int) -> None:
    """Raises a ValueError for one that no line of a vocabulary can be."""
    is_number = type(number) is int and 0 <= number < MAX_PIECES
    if not is_number or not 0 < len(content) <= MAX_PIECE_CHARS:
        raise ValueError(f"the token {content[:60]!r} with the id {number!r}")
    content.encode()  # half a character has no bytes


def _check_tokenizer(tokenizer: Mapping[str, Any]) -> SpecialTokens:
    """Refuses a tokenizer.json that does not tokenize as a family here does;
    returns the special tokens of the one it is."""
    model = tokenizer["model"]
    kind = model.get("type") or "WordPiece"
    if kind not in ("WordPiece", "BPE"):
        raise ValueError(f"a {kind} model")
    special_tokens = BERT
    if kind == "BPE":
        added = [x["content"] for x in tokenizer.get("added_tokens") or ()]
        special_tokens = byte_level_tokens([*model["vocab"], *added])
    start, end = special_tokens.start, special_tokens.end
    between = [(token, 0) for token in special_tokens.between]
    single = [(start, 0), ("A", 0), (end, 0)]
    second = special_tokens.second_segment
    pair = [*single, *between, ("B", second), (end, second)]
    if special_tokens == BERT:
        expected: dict[tuple[str, str], tuple[Any, ...]] = {
            ("model", "continuing_subword_prefix"): ("##", None),
            ("model", "unk_token"): (BERT.unknown,),
            ("normalizer", "type"): ("BertNormalizer",),
            ("normalizer", "clean_text"): (True,),
            ("pre_tokenizer", "type"): ("BertPreTokenizer",),
            ("post_processor", "type"): (
                "TemplateProcessing", "BertProcessing", None,
            ),
        }  # fmt: skip
    else:
        expected = {
            ("model", "dropout"): (None, 0.0),
            ("model", "byte_fallback"): (False, None),
            ("model", "ignore_merges"): (False, None),
            ("model", "continuing_subword_prefix"): ("", None),
            ("model", "end_of_word_suffix"): ("", None),
            ("normalizer", "type"): (special_tokens.unicode_form,),
            ("pre_tokenizer", "type"): ("ByteLevel",),
            ("pre_tokenizer", "use_regex"): (True, None),
            ("post_processor", "type"): (
                "TemplateProcessing",
                *["RobertaProcessing", None] * (special_tokens == ROBERTA),
            ),
        }  # fmt: skip
    for (part, name), values in expected.items():
        value = (tokenizer.get(part) or {}).get(name)
        if value not in values:
            raise ValueError(f"{part} has {name} = {value!r}")
    truncation = tokenizer.get("truncation") or {}
    if (side := truncation.get("direction", "Right")) != "Right":
        raise ValueError(f"truncation has direction = {side!r}")
    processor = tokenizer.get("post_processor") or {}
    if processor.get("type") == "TemplateProcessing":
        for name, expected_template in (("single", single), ("pair", pair)):
            template = [
                (value["id"], value["type_id"])
                for part in processor[name]
                for value in part.values()
            ]
            if special_tokens == MODERNBERT:  # which has no segments
                template = [(token, 0) for token, _ in template]
            if template != expected_template:
                raise ValueError(f"its {name} template is {template}")
    return special_tokens


def _check_same_tokens(path: str, tokenizer: Mapping[str, Any]) -> None:
    """Refuses a vocab.txt or vocab.json that differs from tokenizer.json."""
    other = files.beside(path, [files.VOCABULARY, files.BYTE_LEVEL])
    if other is None:
        return
    theirs = {
        number: token for token, number in tokenizer["model"]["vocab"].items()
    }
    for token in tokenizer.get("added_tokens") or ():
        theirs[token["id"]] = token["content"]
    listed = check_any_vocabulary(files.local(other, is_vocabulary=True))
    for token, number in listed.items():
        their = theirs.get(number, token)
        if token and token not in (their, f"[token {number}]"):
            raise InputError(
                f"{other} and the {TOKENIZER} beside it disagree: token "
                f"{number} is {token!r} in one and {their!r} in the other; "
                "remove the file that is not the model's"
            )


def _check_config(
    config: Mapping[str, Any],
    special_tokens: SpecialTokens,
    has_tokenizer: bool,
) -> str:
    """Refuses a tokenizer_config.json of another kind of tokenizer; returns
    its tokenizer_class, without Fast."""
    kind = str(config.get("tokenizer_class") or CLASSES[0])
    if kind.removesuffix("Fast") not in CLASSES and not has_tokenizer:
        raise ValueError(f"tokenizer_class is {kind}")
    for name, supported in (
        ("word_tokenizer_type", "basic"),
        ("subword_tokenizer_type", "wordpiece"),
        ("do_basic_tokenize", True),
        ("split_special_tokens", False),
        ("truncation_side", "right"),
        *_named_tokens(special_tokens).items(),
    ):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if value is not None and value != supported:
            raise ValueError(f"{name} is {value!r}, and not {supported!r}")
    return kind.removesuffix("Fast")


def _named_tokens(special_tokens: SpecialTokens) -> dict[str, str]:
    """As tokenizer_config.json has them."""
    return {
        "unk_token": special_tokens.unknown,
        "sep_token": special_tokens.end,
        "pad_token": special_tokens.padding,
        "cls_token": special_tokens.start,
        "mask_token": special_tokens.mask,
    }


def _complete_vocabulary(
    path: str, said: _Statements, is_own: bool
) -> tuple[str, dict[str, int]]:
    """Finds or writes a local vocabulary that lists all added tokens; returns
    its path, and token -> id.

    Changes `said.added`: added tokens of another folder go where their ids do
    not fit; those without an id get one (the vocabulary's or, as in
    transformers, the next free one); `is_word_piece` is set.

    Args:
        path: of a vocab.txt, a vocab.json or a tokenizer.json.
        is_own: the folder of `path` is the one that lists the added tokens, so
            that ids which do not fit are an error.
    """
    merges = None
    if path.endswith(TOKENIZER):
        vocab, merges = _vocabulary_in(path)
    else:
        path = files.local(path, is_vocabulary=True)
        vocab = check_any_vocabulary(path)
        if files.is_byte_level(path):
            merges = files.vocabulary_contents(path)[files.MERGES].decode()
    for content, token in list(said.added.items()):
        if vocab.get(content, token.id) == token.id:
            continue
        if is_own:
            raise InputError(
                f"{path} has {content!r} as token {vocab[content]}, but the "
                f"added tokens beside it have it as token {token.id}; expected "
                "the same number"
            )
        del said.added[content]
    ids = [*vocab.values(), *(t.id for t in said.added.values())]
    end = 1 + max(ids, default=-1)
    for content in said.named:
        if content not in said.added:
            number = vocab.get(content, end)
            end = max(end, number + 1)
            said.added[content] = AddedToken(content, number, special=True)
    for content in said.added.keys() - said.completed:
        said.added[content] = dataclasses.replace(
            said.added[content], is_word_piece=content in vocab
        )
    added = {content: token.id for content, token in said.added.items()}
    if added.items() <= vocab.items() and not path.endswith(TOKENIZER):
        return path, vocab
    taken = {number: content for content, number in added.items()}
    for content, number in vocab.items():
        if taken.get(number, content) != content and not UNUSED.match(content):
            raise InputError(
                f"{path} has {content!r} as token {number}, where the added "
                f"tokens beside it have {taken[number]!r}; expected a number "
                "of its own"
            )
    vocab = {k: v for k, v in vocab.items() if v not in taken} | added
    if merges is not None:
        contents = {files.BYTE_LEVEL: json.dumps(vocab), files.MERGES: merges}
    else:
        # What cannot be a line, such as "\n", stands in the settings alone.
        lines = {v: k for k, v in vocab.items() if k == "".join(k.split())}
        text = "".join(
            f"{lines.get(number, f'[token {number}]')}\n"
            for number in range(1 + max(vocab.values(), default=-1))
        )
        contents = {files.VOCABULARY: text}
    path = os.path.join(_written(contents), next(iter(contents)))
    return path, check_any_vocabulary(path)


def _written(contents: Mapping[str, str]) -> str:
    """A temporary folder with files of these contents, one for all models of a
    process that have the same."""
    digest = hashlib.sha256(json.dumps(contents).encode()).digest()
    folder = _folders.get(digest, "")
    if not all(os.path.exists(os.path.join(folder, x)) for x in contents):
        folder = _folders[digest] = files.temporary_folder()
        for name, text in contents.items():
            Path(folder, name).write_bytes(text.encode())
    return folder


def _vocabulary_in(path: str) -> tuple[dict[str, int], str | None]:
    """What a tokenizer.json lists, and the text of a merges.txt; word pieces
    have none."""
    try:
        values = files.json_beside(path, TOKENIZER)
        model = values["model"]
        vocab = {str(k): int(model["vocab"][k]) for k in model["vocab"]}
        if model.get("type") == "BPE":  # ModernBERT's are not among them
            for token in values.get("added_tokens") or ():
                if token["content"] in MODERNBERT.tokens:
                    vocab[token["content"]] = token["id"]
        for piece, number in vocab.items():
            _check_token(piece, number)
        if len({*vocab.values()}) < len(vocab):
            raise ValueError("two of its tokens have one id")
        pairs = [
            pair if isinstance(pair, str) else " ".join(pair)
            for pair in model.get("merges") or ()
        ]
    except MALFORMED as error:
        raise InputError(
            f"{path} does not hold the vocabulary of a BERT, RoBERTa or "
            f"ModernBERT ({error}); put a {files.VOCABULARY}, or a "
            f"{files.BYTE_LEVEL} and a {files.MERGES}, beside it"
        ) from error
    is_byte_level = model.get("type") == "BPE"
    return vocab, "".join(f"{x}\n" for x in pairs) if is_byte_level else None


def settings_json(tokenizer: OpenedTokenizer) -> str:
    """A tokenizer_config.json that `open_tokenizer` reads the settings from;
    it states the case only where that is known."""
    values = dataclasses.asdict(tokenizer.settings)
    special_tokens = tokenizer.special_tokens
    is_byte_level = special_tokens.is_byte_level
    unused = set(SETTINGS) - {"add_prefix_space"}
    if not is_byte_level:
        unused = {"add_prefix_space"}
        if not tokenizer.is_stated:
            unused.add("do_lower_case")
    tokens = {token.pop("id"): token for token in values.pop("added_tokens")}
    config = {
        "tokenizer_class": {
            BERT: "BertTokenizer",
            ROBERTA: "RobertaTokenizer",
            MODERNBERT: f"{GENERIC[0]}Fast",
        }[special_tokens],
        **{name: x for name, x in values.items() if name not in unused},
        "added_tokens_decoder": tokens,
    }
    return json.dumps(config, indent=2) + "\n"


def hugging_face_files(
    tokenizer: OpenedTokenizer, max_length: int, has_segments: bool = True
) -> dict[str, str]:
    """What transformers reads the same tokenizer from, beside its vocabulary.

    Two things cannot be said there: that private-use characters stay, as in
    Google's tokenizer, and that special tokens spelled out in a text are text.

    Args:
        max_length: the longest input, in tokens.
        has_segments: whether the model reads segment ids, as DistilBERT does
            not.
    """
    from tokenizers import Tokenizer as Library
    from tokenizers import (
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    settings, vocab = tokenizer.settings, tokenizer.vocab
    config = json.loads(settings_json(tokenizer))
    tokens = config.pop("added_tokens_decoder")
    for token in tokens.values():
        del token["is_word_piece"]
    special_tokens = tokenizer.special_tokens
    flags = "single_word", "lstrip", "rstrip", "normalized"
    special = dict.fromkeys(flags, False) | {"special": True}
    # The space before a blank is a part of what fills it.
    mask = special | {"lstrip": special_tokens.is_byte_level}
    config["model_max_length"] = max_length
    config |= _named_tokens(special_tokens)
    if special_tokens.is_byte_level:
        config["mask_token"] = {
            "__type": "AddedToken",
            "content": special_tokens.mask,
            **mask,
        }
    if special_tokens == ROBERTA:
        config["added_tokens_decoder"] = tokens
        return {TOKENIZER_CONFIG: json.dumps(config, indent=2) + "\n"}
    start, end = special_tokens.start, special_tokens.end
    loaded = tokenizer.load()
    if isinstance(loaded, ByteLevelBpe):
        library = loaded.library
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=settings.add_prefix_space
        )
        library.decoder = decoders.ByteLevel()
        pair = f"{start} $A {end} $B {end}"
    else:
        config["do_lower_case"] = settings.do_lower_case
        # The library takes tokens that are not word pieces only after all
        # others.
        whole = {t.id for t in settings.added_tokens if not t.is_word_piece}
        length = 1 + max(set(vocab.values()) - whole)
        library = Library(
            models.WordPiece(
                {k: v for k, v in vocab.items() if v < length},
                unk_token=special_tokens.unknown,
                max_input_chars_per_word=settings.max_input_chars_per_word,
            )
        )
        library.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=settings.tokenize_chinese_chars,
            strip_accents=settings.strip_accents,
            lowercase=settings.do_lower_case,
        )
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pair = f"{start} $A {end} $B:1 {end}:1"
    library.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=pair,
        special_tokens=[(piece, vocab[piece]) for piece in (start, end)],
    )
    values = json.loads(library.to_str())
    values["added_tokens"] = sorted(
        [
            *(
                {
                    "id": vocab[piece],
                    "content": piece,
                    **(mask if piece == special_tokens.mask else special),
                }
                for piece in special_tokens.tokens
            ),
            *({"id": int(key), **token} for key, token in tokens.items()),
        ],
        key=lambda token: token["id"],
    )
    if settings.max_input_chars_per_word != 100:
        # BertTokenizer has no other limit
        config["tokenizer_class"] = f"{GENERIC[0]}Fast"
    segments = ["token_type_ids"] * has_segments
    config["model_input_names"] = ["input_ids", *segments, "attention_mask"]
    return {
        name: json.dumps(content, indent=2) + "\n"
        for name, content in ((TOKENIZER_CONFIG, config), (TOKENIZER, values))
    }

"""Model folders as people have them, and what transformers makes of them.

For folder_parity.py, in an environment that has torch and transformers:

    transformers_folders.py make --vocab_dir=... --work_dir=...
    transformers_folders.py read --work_dir=...

`make` writes folders/NAME, random models of two layers of 32, and answers/NAME;
`read` reads again/NAME, which has made the way there and back, and writes
again_answers/NAME. Answers are NAME.json (token ids and segment ids of each of
LINES, labels) and NAME.npz (the last layer, and what each head says). Where
transformers cannot read a folder, answers/NAME.json says so.
"""

import argparse
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    AddedToken,
    AutoTokenizer,
    BertTokenizer,
    DistilBertTokenizer,
    RobertaTokenizer,
)

# Kind of line: a text, or a pair. Of two kinds Google's rules are others.
SIGMA, SPELLED = "final sigma", "special tokens spelled out"
LINES: list[tuple[str, str, str | None]] = [
    ("English", "The fox wasn't jumping over 2,500 lazy dogs, really?", None),
    ("accents", "Élan naïve café résumé, Ångström and São Paulo", None),
    ("German", "Die Straße nach Köln führt über die Brücke: 12 m².", None),
    ("French", "L’été où Noël s’est tu, « ça va » ?", None),
    ("Turkish", "İstanbul'da IŞIK ığdır İZMİR'e gitti", None),
    ("Vietnamese", "Tiếng Việt rất đẹp", None),
    ("Greek", "Το μεγάλο σπίτι της Άννας Ωραία", None),
    (SIGMA, "ΟΔΥΣΣΕΥΣ ΚΑΙ ΑΙΑΣ", None),
    ("Cyrillic", "Съешь ещё этих мягких булок, Ёлка Й", None),
    ("Arabic", "السَّلامُ عليكم، كيف الحال؟", None),
    ("Hebrew", "שָׁלוֹם לכולם", None),
    ("Hindi", "नमस्ते दुनिया, यह हिंदी है।", None),
    ("Thai", "สวัสดีชาวโลก ภาษาไทย", None),
    ("Chinese", "北京是中华人民共和国的首都。", None),
    ("Japanese", "東京タワーは高いです。か\u3099きく", None),
    ("Korean", "안녕하세요 세계, 한국어", None),
    ("mixed", "GPT-4とBERT的比較 für 日本語abc", None),
    ("emoji", "I ♥ this 😀👍🏽 👨\u200d👩\u200d👧 🇩🇪", None),
    ("zero width", "zero\u200bwidth non\u200cjoin \ufeffbom s\u00adh", None),
    ("private use", "private \ue000\uf8ff use \U000f0000x", None),
    ("unassigned", "unassigned \u0378 and \ufdd0 and \U000e0080x", None),
    ("control", "bell\x07 nul\x00 esc\x1b del\x7f nel\x85 vt\x0b", None),
    ("replacement", "re\ufffdplaced \ufffc object", None),
    ("word of 25", "internationalizationalisms ok", None),
    ("word of 150", "ab" * 75 + " ok", None),
    ("tab", "left\tright  two\u00a0nbsp\u3000wide\u2028line", None),
    ("line breaks", "line one\nline two\r\nline three\n", None),
    ("spaces around", "  spaces before and after  ", None),
    ("added tokens", "[E1] Jim [E1] met <user>, x[E1]y and <user>s", None),
    ("added, other case", "<User> met [e1] and <USER> Keeper keeper", None),
    (SPELLED, "The [MASK] sat [SEP] [UNK] <mask> </s> <pad> [PAD]", None),
    ("signs", "$5+3=8^2 `code` ~x~ <tag> ¿qué? … “q” ‹x› €", None),
    ("numbers", "½ ² ① Ⅷ ٣ १२ 1,234.5", None),
    ("address", "https://example.com/a_b?c=d&e=f#g me@mail.org", None),
    ("combining", "e\u0301 n\u0303 A\u030a q\u0307\u0323 ẞ ﬁne Ǆ", None),
    ("pair", "Who was Jim Henson?", "Jim Henson was a puppeteer."),
    ("pair of scripts", "Größe <user>", "大小 是 [E1] Maß"),
]

WORDPIECE = {"bert": BertTokenizer, "distilbert": DistilBertTokenizer}
CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "modernbert": "ModernBert",
}
MASKED_LM = "ForMaskedLM"
LEGACY_SETTINGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")

Edit = Callable[[Path], None]


class Recipe(NamedTuple):
    """A folder to be made."""

    name: str
    family: str = "bert"
    vocab: str = "bert-base-uncased"  # in --vocab_dir
    settings: dict[str, Any] = {}  # of the tokenizer
    added: tuple[AddedToken, ...] = ()  # to its vocabulary
    padding_id: int = 1  # in a byte-level vocabulary
    # json: tokenizer.json and tokenizer_config.json, as transformers 5 saves;
    # legacy: the vocabulary's files and tokenizer_config.json, as 4 did;
    # bare: the vocabulary's files.
    files: str = "json"
    head: str = MASKED_LM
    config: dict[str, Any] = {}
    save: dict[str, Any] = {}  # for save_pretrained of the model
    dtype: torch.dtype = torch.float32
    edits: tuple[Edit, ...] = ()
    is_answered: bool = True  # by transformers


def change(name: str, *absent: str, **values: Any) -> Edit:
    """Removes keys of a JSON file, and gives others new values."""

    def edit(folder: Path) -> None:
        path = folder / name
        content = {**json.loads(path.read_text()), **values}
        for key in absent:
            del content[key]
        path.write_text(json.dumps(content, indent=2))

    return edit


def tokenizer_json(**parts: Any) -> Edit:
    """Replaces parts of tokenizer.json, which a generic class of transformers
    reads as it stands."""

    def edit(folder: Path) -> None:
        change("tokenizer.json", **parts)(folder)
        change(
            "tokenizer_config.json",
            *("backend", *LEGACY_SETTINGS),
            tokenizer_class="PreTrainedTokenizerFast",
        )(folder)

    return edit


def word_piece(prefix: str = "##", **values: Any) -> Edit:
    """The model of a tokenizer.json with these values."""

    def edit(folder: Path) -> None:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        vocab = {
            prefix + token[2:] if token.startswith("##") else token: number
            for token, number in model["vocab"].items()
        }
        model |= {**values, "vocab": vocab, "continuing_subword_prefix": prefix}
        tokenizer_json(model=model)(folder)

    return edit


def unigram(folder: Path) -> None:
    """As SentencePiece's models are saved."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.Unigram(
            [
                *(("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)),
                *(("▁the", -2.0), ("a", -3.0), ("▁", -3.0), ("<mask>", 0.0)),
            ],
            unk_id=3,
        )
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))
    change("tokenizer_config.json", tokenizer_class="XLMRobertaTokenizer")(
        folder
    )


def relative(folder: Path) -> None:
    """What transformers 4 saved of relative positions."""
    change("config.json", position_embedding_type="relative_key")(folder)
    tensors = load_file(folder / "model.safetensors")
    for layer in range(2):
        name = f"bert.encoder.layer.{layer}.attention.self.distance_embedding"
        tensors[f"{name}.weight"] = torch.randn(127, 16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def pooling(mode: str) -> Edit:
    """The folders of sentence-transformers beside the model's files."""

    def edit(folder: Path) -> None:
        modules = [
            {"idx": 0, "name": "0", "path": "", "type": "Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "Pooling"},
        ]
        for module in modules:
            kind = module["type"]
            module["type"] = f"sentence_transformers.models.{kind}"
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        modes = "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"
        values = {f"pooling_mode_{name}": name == mode for name in modes}
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps({"word_embedding_dimension": 32, **values})
        )

    return edit


def renamed(old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = {
            new + name.removeprefix(old) if name.startswith(old) else name: x
            for name, x in load_file(path).items()
        }
        save_file(tensors, path, {"format": "pt"})

    return edit


def decoder_of_its_own(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    table = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = torch.randn_like(table)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


MARKS = (AddedToken("[E1]", special=True), AddedToken("<user>", special=True))
WORDS = (
    AddedToken("[E1]", special=False, normalized=False),
    AddedToken("<user>", special=False, normalized=True),
    AddedToken("keeper", special=False, normalized=True),
)
STRIPS = (
    AddedToken("[E1]", special=True, lstrip=True),
    AddedToken("<user>", special=True, rstrip=True),
)
SINGLE = (
    AddedToken("[E1]", special=True, single_word=True),
    AddedToken("<user>", special=False, single_word=True),
)
LINE_BREAK = (AddedToken("\n", normalized=False), AddedToken("keeper"))
CLASS, TAGS = "ForSequenceClassification", "ForTokenClassification"
SPAN, CHOICE = "ForQuestionAnswering", "ForMultipleChoice"
NEXT, BOTH = "ForNextSentencePrediction", "ForPreTraining"
# Not in the alphabet's order, nor in that of the file once sorted as text.
NAMES = "very good", "bad", "so so", "x y", "A", "zz", "é", "1", "0", "n", "m"
LABELS = dict(enumerate(NAMES))
TAG_NAMES = dict(enumerate(["O", "I-PER", "B-PER", "B-LOC", "I-LOC"]))


def classes(labels: dict[int, str], **others: Any) -> dict[str, Any]:
    return {
        "id2label": labels,
        "label2id": {name: number for number, name in labels.items()},
        **others,
    }


def recipes() -> Iterator[Recipe]:
    refused: dict[str, Any] = {"is_answered": False}
    cased: dict[str, Any] = {"do_lower_case": False}
    kept: dict[str, Any] = {"strip_accents": False}
    stripped: dict[str, Any] = {"do_lower_case": False, "strip_accents": True}
    for name, vocab, settings in (
        ("uncased", "bert-base-uncased", {}),
        ("cased", "bert-base-cased", cased),
        ("uncased, accents kept", "bert-base-uncased", kept),
        ("cased, accents stripped", "bert-base-cased", stripped),
    ):
        for files in ("json", "legacy", "bare"):
            if settings in ({}, cased) or files != "bare":
                yield Recipe(
                    f"BERT, {name}, {files}",
                    vocab=vocab,
                    settings=settings,
                    files=files,
                )
    for files in ("json", "legacy"):
        yield Recipe(
            f"BERT, Chinese characters kept together, {files}",
            vocab="bert-base-multilingual-cased",
            settings=cased | {"tokenize_chinese_chars": False},
            files=files,
        )
        yield Recipe(
            f"BERT, added special tokens, {files}",
            vocab="bert-base-cased",
            settings=cased,
            added=MARKS,
            files=files,
        )
        yield Recipe(f"BERT, added words, {files}", added=WORDS, files=files)
    yield Recipe("BERT, added tokens that strip", added=STRIPS)
    yield Recipe("BERT, added tokens that are words", added=SINGLE)
    yield Recipe(
        "BERT, an added line break",
        added=LINE_BREAK,
        config={"vocab_size": 30528},  # more than there are tokens
    )
    yield Recipe(
        "BERT, Chinese",
        vocab="bert-base-chinese",
        head="Model",
    )
    yield Recipe("BERT, prefix @@", edits=(word_piece("@@"),))
    yield Recipe(
        "BERT, words of 20", edits=(word_piece(max_input_chars_per_word=20),)
    )
    yield Recipe(
        "BERT, cased by tokenizer.json alone",
        vocab="bert-base-cased",
        edits=(
            tokenizer_json(
                normalizer={
                    "type": "BertNormalizer",
                    "clean_text": True,
                    "handle_chinese_chars": True,
                    "strip_accents": None,
                    "lowercase": False,
                }
            ),
        ),
    )
    yield Recipe("BERT, one token type", config={"type_vocab_size": 1})
    yield Recipe("BERT, pad_token_id 7", config={"pad_token_id": 7})
    yield Recipe(
        "BERT, no head, eps 1e-5, relu",
        head="Model",
        config={"layer_norm_eps": 1e-5, "hidden_act": "relu"},
    )
    yield Recipe("BERT, gelu_new", config={"hidden_act": "gelu_new"})
    yield Recipe("BERT, silu", config={"hidden_act": "silu"})
    yield Recipe("BERT, chunks", config={"chunk_size_feed_forward": 1})
    yield Recipe("BERT, pre-training, float16", head=BOTH, dtype=torch.float16)
    yield Recipe("BERT, bfloat16", dtype=torch.bfloat16)
    yield Recipe("BERT, sharded", head=BOTH, save={"max_shard_size": "200KB"})
    yield Recipe("BERT, next sentence", head=NEXT)
    yield Recipe("BERT, 11 labels", head=CLASS, config=classes(LABELS))
    multi = {"problem_type": "multi_label_classification"}
    yield Recipe(
        "BERT, multi-label",
        head=CLASS,
        config=classes({0: "b", 1: "a"}, **multi),
    )
    yield Recipe("BERT, regression", head=CLASS, config={"num_labels": 1})
    yield Recipe("BERT, tags", head=TAGS, config=classes(TAG_NAMES))
    yield Recipe("BERT, question answering", head=SPAN)
    yield Recipe("BERT, multiple choice", head=CHOICE)
    yield Recipe(
        "BERT, names of RoBERTa's",
        edits=(renamed("bert.", "roberta."),),
        **refused,
    )
    yield Recipe(
        "BERT, no key of transformers'",
        edits=(
            change(
                "config.json",
                *("model_type", "architectures", "transformers_version"),
            ),
        ),
    )
    yield Recipe(
        "BERT, no model_type", edits=(change("config.json", "model_type"),)
    )
    yield Recipe(
        "BERT, sentence-transformers, mean",
        head="Model",
        edits=(pooling("mean_tokens"),),
    )
    yield Recipe(
        "BERT, sentence-transformers, cls",
        head="Model",
        edits=(pooling("cls_token"),),
    )
    roberta: dict[str, Any] = {"family": "roberta", "vocab": "roberta-base"}
    one = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
    for files in ("json", "legacy", "bare"):
        yield Recipe(f"RoBERTa, {files}", **roberta, files=files, config=one)
    for files in ("json", "legacy"):
        yield Recipe(
            f"RoBERTa, prefix space, {files}",
            **roberta,
            settings={"add_prefix_space": True},
            files=files,
        )
        yield Recipe(
            f"RoBERTa, added special tokens, {files}",
            **roberta,
            added=MARKS,
            files=files,
        )
    yield Recipe("RoBERTa, added words", **roberta, added=WORDS)
    yield Recipe("RoBERTa, added tokens that strip", **roberta, added=STRIPS)
    yield Recipe("RoBERTa, no head", **roberta, head="Model", config=one)
    yield Recipe(
        "RoBERTa, 11 labels", **roberta, head=CLASS, config=classes(LABELS)
    )
    yield Recipe(
        "RoBERTa, tags", **roberta, head=TAGS, config=classes(TAG_NAMES)
    )
    yield Recipe("RoBERTa, question answering", **roberta, head=SPAN)
    yield Recipe("RoBERTa, multiple choice", **roberta, head=CHOICE, config=one)
    yield Recipe(
        "RoBERTa, pad_token_id 5", **roberta, config={"pad_token_id": 5}
    )
    yield Recipe("RoBERTa, relu", **roberta, config={"hidden_act": "relu"})
    yield Recipe(
        "RoBERTa, no model_type",
        **roberta,
        edits=(change("config.json", "model_type"),),
    )
    yield Recipe(
        "RoBERTa, no model_type, no architectures",
        **roberta,
        head="Model",
        edits=(
            change(
                "config.json",
                *("model_type", "architectures", "transformers_version"),
            ),
        ),
    )
    distil: dict[str, Any] = {"family": "distilbert"}
    for files in ("json", "legacy", "bare"):
        yield Recipe(f"DistilBERT, uncased, {files}", **distil, files=files)
    yield Recipe(
        "DistilBERT, cased",
        **distil,
        vocab="bert-base-cased",
        settings=cased,
        head="Model",
    )
    yield Recipe(
        "DistilBERT, 11 labels", **distil, head=CLASS, config=classes(LABELS)
    )
    yield Recipe("DistilBERT, question answering", **distil, head=SPAN)
    yield Recipe(
        "DistilBERT, tags", **distil, head=TAGS, config=classes(TAG_NAMES)
    )
    yield Recipe("DistilBERT, multiple choice", **distil, head=CHOICE)
    yield Recipe(
        "DistilBERT, sinusoidal",
        **distil,
        config={"sinusoidal_pos_embds": True},
    )
    yield Recipe(
        "DistilBERT, no model_type",
        **distil,
        edits=(change("config.json", "model_type"),),
    )
    modern: dict[str, Any] = {"family": "modernbert", "vocab": "roberta-base"}
    near: dict[str, Any] = {"num_hidden_layers": 4, "local_attention": 6}
    yield Recipe("ModernBERT", **modern, config=near)
    yield Recipe(
        "ModernBERT, prefix space",
        **modern,
        settings={"add_prefix_space": True},
    )
    yield Recipe("ModernBERT, added special tokens", **modern, added=MARKS)
    yield Recipe("ModernBERT, added words", **modern, added=WORDS)
    yield Recipe("ModernBERT, added tokens that strip", **modern, added=STRIPS)
    yield Recipe("ModernBERT, no head", **modern, head="Model", config=near)
    yield Recipe(
        "ModernBERT, 11 labels",
        **modern,
        head=CLASS,
        config=classes(LABELS, classifier_pooling="mean", **near),
    )
    yield Recipe(
        "ModernBERT, tags",
        **modern,
        head=TAGS,
        config=classes(TAG_NAMES, global_attn_every_n_layers=2, **near),
    )
    yield Recipe("ModernBERT, question answering", **modern, head=SPAN)
    yield Recipe("ModernBERT, multiple choice", **modern, head=CHOICE)
    yield Recipe("ModernBERT, bfloat16", **modern, dtype=torch.bfloat16)
    yield Recipe(
        "ModernBERT, biases", **modern, config={"attention_bias": True}
    )
    yield Recipe(
        "ModernBERT, no model_type",
        **modern,
        edits=(change("config.json", "model_type"),),
    )
    yield Recipe(
        "BERT, mecab",
        vocab="bert-base-multilingual-cased",
        settings=cased,
        files="legacy",
        edits=(
            change(
                "tokenizer_config.json",
                tokenizer_class="BertJapaneseTokenizer",
                word_tokenizer_type="mecab",
                subword_tokenizer_type="wordpiece",
            ),
        ),
        **refused,
    )
    yield Recipe("BERT, Unigram", edits=(unigram,), **refused)
    yield Recipe("RoBERTa, Unigram", **roberta, edits=(unigram,), **refused)
    for name in ("WhitespaceSplit", "Metaspace"):
        cut: dict[str, Any] = {"type": name}
        if name == "Metaspace":
            cut |= {"replacement": "▁", "prepend_scheme": "always"}
            cut |= {"split": True}
        yield Recipe(
            f"BERT, {name}", edits=(tokenizer_json(pre_tokenizer=cut),)
        )
    yield Recipe("BERT, relative positions", edits=(relative,), **refused)
    yield Recipe(
        "BERT, decoder", head="LMHeadModel", config={"is_decoder": True}
    )
    yield Recipe(
        "BERT, output layer of its own",
        config={"tie_word_embeddings": False},
        edits=(decoder_of_its_own,),
    )
    for kind in ("albert", "xlm-roberta", "modernbert", "electra"):
        yield Recipe(
            f"model_type {kind}",
            edits=(change("config.json", model_type=kind),),
            **refused,
        )


def modern_tokenizer(folder: Path, add_prefix_space: bool = False) -> Any:
    """With the parts of ModernBERT's, of RoBERTa's vocabulary."""
    never = {chr(byte) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
    roberta = json.loads((folder / "vocab.json").read_text())
    pieces = [
        piece
        for piece in roberta
        if piece not in {"<s>", "<pad>", "</s>", "<unk>", "<mask>", *never}
    ]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    _, *lines = (folder / "merges.txt").read_text().splitlines()
    merges = [tuple(line.split(" ")) for line in lines]
    library = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab, [(a, b) for a, b in merges if {a, b, a + b} <= vocab.keys()]
        )
    )
    library.normalizer = tokenizers.normalizers.NFC()
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space
    )
    library.decoder = tokenizers.decoders.ByteLevel()
    spaces = [AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)]
    special = [
        AddedToken(f"[{name}]", lstrip=name == "MASK", special=True)
        for name in ("UNK", "CLS", "SEP", "PAD", "MASK")
    ]
    library.add_tokens(spaces)
    library.add_special_tokens(special)
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[
            (name, library.token_to_id(name)) for name in ("[CLS]", "[SEP]")
        ],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=library,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{token.content[1:-1].lower()}_token": token for token in special},
    )


def make_tokenizer(recipe: Recipe, vocab_dir: Path) -> Any:
    folder = vocab_dir / recipe.vocab
    if recipe.family == "modernbert":
        tokenizer = modern_tokenizer(folder, **recipe.settings)
    elif recipe.family == "roberta":
        vocab = json.loads((folder / "vocab.json").read_text())
        token = next(t for t in vocab if vocab[t] == recipe.padding_id)
        vocab |= {token: vocab["<pad>"], "<pad>": recipe.padding_id}
        _, *merges = (folder / "merges.txt").read_text().splitlines()
        tokenizer = RobertaTokenizer(
            vocab=vocab,
            merges=[tuple(merge.split(" ")) for merge in merges],
            **recipe.settings,
        )
    else:
        tokenizer = WORDPIECE[recipe.family](
            vocab=str(folder / "vocab.txt"), **recipe.settings
        )
    for token in recipe.added:
        tokenizer.add_tokens([token], special_tokens=token.special)
    return tokenizer


def save_tokenizer(
    recipe: Recipe, tokenizer: Any, vocab: Path, to: Path
) -> None:
    if recipe.files == "json":
        tokenizer.save_pretrained(to)
        return
    for name in ("vocab.txt", "vocab.json", "merges.txt"):
        if (vocab / name).exists():
            shutil.copyfile(vocab / name, to / name)
    if recipe.files == "bare":
        return
    decoder = {
        str(number): {
            "content": token.content,
            "lstrip": token.lstrip,
            "normalized": token.normalized,
            "rstrip": token.rstrip,
            "single_word": token.single_word,
            "special": token.special,
        }
        for number, token in tokenizer.added_tokens_decoder.items()
    }
    values = {
        **{k: v for k, v in tokenizer.init_kwargs.items() if k != "backend"},
        "added_tokens_decoder": decoder,
        "tokenizer_class": type(tokenizer).__name__,
    }
    plain = {k: v for k, v in values.items() if _is_json(v)}
    (to / "tokenizer_config.json").write_text(json.dumps(plain, indent=2))
    if recipe.added:
        added = {
            token.content: number
            for number, token in tokenizer.added_tokens_decoder.items()
            if token.content in {a.content for a in recipe.added}
        }
        (to / "added_tokens.json").write_text(json.dumps(added))


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def make(recipe: Recipe, vocab_dir: Path, folder: Path) -> str:
    """Writes a folder; returns the name of the model's class."""
    folder.mkdir(parents=True)
    tokenizer = make_tokenizer(recipe, vocab_dir)
    prefix = CLASSES[recipe.family]
    size: dict[str, Any] = (
        {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2}
        if recipe.family == "distilbert"
        else {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        }
    )
    values = {"vocab_size": len(tokenizer), **size, **recipe.config}
    if recipe.family == "modernbert":
        names = ("pad", "cls", "sep")
        ids = {n: getattr(tokenizer, f"{n}_token_id") for n in names}
        ids |= {"bos": ids["cls"], "eos": ids["sep"]}
        values |= {f"{name}_token_id": number for name, number in ids.items()}
    config = getattr(transformers, f"{prefix}Config")(
        max_position_embeddings=260, initializer_range=0.2, **values
    )
    model = getattr(transformers, prefix + recipe.head)(config)
    for name, parameter in model.named_parameters():
        if "position_embeddings" not in name or parameter.requires_grad:
            noise = 0.1 * torch.randn_like(parameter)
            parameter.data += noise  # biases and norms, too
    model.to(recipe.dtype).save_pretrained(folder, **recipe.save)
    save_tokenizer(recipe, tokenizer, vocab_dir / recipe.vocab, folder)
    for edit in recipe.edits:
        edit(folder)
    return prefix + recipe.head


def answers(folder: Path, class_name: str) -> tuple[dict[str, Any], Any]:
    """What transformers makes of LINES: values for JSON, and arrays."""
    config_class = getattr(transformers, class_name).config_class
    config = config_class.from_pretrained(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (ValueError, KeyError):  # it has no model_type
        family = config_class.model_type
        kind = WORDPIECE.get(family, RobertaTokenizer)
        if family == "modernbert":
            kind = transformers.PreTrainedTokenizerFast
        tokenizer = kind.from_pretrained(folder)
    model = getattr(transformers, class_name).from_pretrained(
        folder, config=config, dtype=torch.float32
    )
    model.eval()
    rows, arrays = [], []
    for _, first, second in LINES:
        encoded = tokenizer(first, second, return_token_type_ids=True)
        ids = encoded["input_ids"]
        segments = encoded["token_type_ids"]
        rows.append(
            {
                "tokens": tokenizer.convert_ids_to_tokens(ids),
                "input_ids": ids,
                "segment_ids": segments,
            }
        )
        types = getattr(config, "type_vocab_size", 0)
        arrays.append(
            outputs(model, ids, [min(s, types - 1) for s in segments], types)
        )
    names = arrays[0].keys()
    values = {
        "class": class_name,
        "rows": rows,
        "labels": [config.id2label[i] for i in range(len(config.id2label))],
        "problem_type": config.problem_type,
    }
    return values, {
        name: np.concatenate([array[name] for array in arrays])
        if name != "masked_lm"
        else np.stack([array[name] for array in arrays[:5]])
        for name in names
    }


def outputs(
    model: Any, ids: list[int], segments: list[int], types: int
) -> dict[str, np.ndarray]:
    """By head: [S, C], [1, C] or, of the masked LM at position 1, [V]."""
    inputs = {"input_ids": torch.tensor([ids])}
    if types:
        inputs["token_type_ids"] = torch.tensor([segments])
    name = type(model).__name__
    if name.endswith(CHOICE):
        inputs = {key: value[None] for key, value in inputs.items()}
    with torch.inference_mode():
        found = model(**inputs, output_hidden_states=True)
    result = {"states": found.hidden_states[-1][0]}
    if name.endswith(SPAN):
        result["span"] = torch.stack([found.start_logits, found.end_logits], -1)
        result["span"] = result["span"][0]
    elif name.endswith(BOTH):
        result["masked_lm"] = found.prediction_logits[0, 1]
        result["next_sentence"] = found.seq_relationship_logits
    elif name.endswith(NEXT):
        result["next_sentence"] = found.logits
    elif name.endswith(TAGS):
        result["classifier"] = found.logits[0]
    elif name.endswith((CLASS, CHOICE)):
        result["classifier"] = found.logits
    elif name.endswith(("LM", "LMHeadModel")):
        result["masked_lm"] = found.logits[0, 1]
    elif getattr(found, "pooler_output", None) is not None:
        result["pooled"] = found.pooler_output
    return {key: value.float().numpy() for key, value in result.items()}


def write(to: Path, name: str, values: dict[str, Any], arrays: Any) -> None:
    to.mkdir(exist_ok=True)
    (to / f"{name}.json").write_text(json.dumps(values))
    np.savez(to / f"{name}.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("make", "read"))
    parser.add_argument("--vocab_dir", type=Path)
    parser.add_argument("--work_dir", type=Path, required=True)
    flags = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if flags.step == "make":
        (flags.work_dir / "lines.json").write_text(json.dumps(LINES))
        for number, recipe in enumerate(recipes()):
            torch.manual_seed(number)
            folder = flags.work_dir / "folders" / recipe.name
            class_name = make(recipe, flags.vocab_dir, folder)
            values: dict[str, Any] = {"class": None}
            arrays: Any = {}
            if recipe.is_answered:
                values, arrays = answers(folder, class_name)
            write(flags.work_dir / "answers", recipe.name, values, arrays)
        return
    for folder in sorted((flags.work_dir / "again").iterdir()):
        config = json.loads((folder / "config.json").read_text())
        try:
            values, arrays = answers(folder, config["architectures"][0])
        except Exception as error:  # whatever it is, it is to be shown
            values, arrays = {"class": None, "error": str(error)}, {}
        write(flags.work_dir / "again_answers", folder.name, values, arrays)


if __name__ == "__main__":
    main()

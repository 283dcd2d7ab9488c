"""A folder with good inputs for every command, and with malicious ones.

What each command needs to succeed is `GOOD`; which of its flags name files, and
of what kind, is `FILES`; `REQUIRED` and `NUMBERS` name flags that it cannot do
without and flags that are numbers. Paths are relative to the folder.
"""

import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "golden"
LENGTHS = "--max_seq_length=32 --max_predictions_per_seq=5"
MODEL_FLAGS = (
    "--bert_config_file=model/bert_config.json --vocab_file=model/vocab.txt"
    " --init_checkpoint=model/bert_model.ckpt"
)
TRAINING = "--do_train --output_dir=out/run --train_batch_size=2"

# By command; each value is without spaces.
GOOD = {
    "build_vocab": "--input_file=corpus.txt --output_file=out/vocab.txt"
    " --vocab_size=300",
    "convert_checkpoint": "--init_checkpoint=model --output_dir=out/converted"
    " --vocab_file=model/vocab.txt"
    " --bert_config_file=model/bert_config.json",
    "create_pretraining_data": "--input_file=corpus.txt --num_workers=1"
    f" --vocab_file=model/vocab.txt --output_file=out/made.tfrecord {LENGTHS}",
    "export_model": "--model_dir=model --export_dir=out/export"
    " --max_seq_length=16",
    "export_tflite": "--model_dir=model --output_file=out/model.tflite"
    " --max_seq_length=16",
    "extend_vocab": "--init_checkpoint=model --input_file=corpus.txt"
    " --output_dir=out/extended",
    "extract_features": "--input_file=corpus.txt --output_file=out/f.jsonl"
    f" --max_seq_length=16 --layers=-1 {MODEL_FLAGS}",
    "inspect_records": "--input_file=some.tfrecord"
    " --vocab_file=model/vocab.txt",
    "pack_records": "--input_file=some.tfrecord"
    f" --output_file=out/packed.tfrecord {LENGTHS}",
    "predict": "--model_dir=model --input_file=lines.txt"
    " --output_file=out/answers.tsv",
    "pretrain_domain": "--input_file=corpus.txt --init_checkpoint=model"
    " --general_file=corpus.txt --vocab_file=model/vocab.txt"
    " --input_format=sentences --output_dir=out/domain --num_train_steps=2"
    " --train_batch_size=2 --max_seq_length=32 --eval_steps=1",
    "run_classifier": f"--train_file=table.tsv --eval_file=table.tsv {TRAINING}"
    f" --do_eval --max_seq_length=16 --num_train_epochs=1 {MODEL_FLAGS}",
    "run_multiple_choice": "--train_file=questions.jsonl --do_eval"
    f" --eval_file=questions.jsonl {TRAINING} --max_seq_length=16"
    f" --num_train_epochs=1 {MODEL_FLAGS}",
    "run_ner": "--train_file=tagged.txt --eval_file=tagged.txt --do_eval"
    " --do_predict --predict_file=tagged.txt --max_seq_length=16"
    f" --num_train_epochs=1 {TRAINING} {MODEL_FLAGS}",
    "run_pretraining": "--input_file=some.tfrecord --eval_file=some.tfrecord"
    " --general_eval_file=some.tfrecord"
    f" --do_eval --num_train_steps=2 {LENGTHS} {TRAINING} {MODEL_FLAGS}",
    "run_squad": "--train_file=squad.json --do_predict"
    " --predict_file=squad.json --max_seq_length=48 --max_query_length=16"
    f" --doc_stride=16 --num_train_epochs=1 {TRAINING} {MODEL_FLAGS}",
    "show_attention": "--model_dir=model --text=sea --output_file=out/map.html",
}

# By command: a flag and the kind of file that it names.
FILES = {
    "build_vocab": {"input_file": "text"},
    "convert_checkpoint": {
        "init_checkpoint": "model",
        "vocab_file": "vocabulary",
        "bert_config_file": "config",
    },
    "create_pretraining_data": {
        "input_file": "text",
        "vocab_file": "vocabulary",
    },
    "export_model": {"model_dir": "model"},
    "export_tflite": {"model_dir": "model"},
    "extend_vocab": {"init_checkpoint": "model", "input_file": "text"},
    "extract_features": {
        "input_file": "text",
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "inspect_records": {"input_file": "records", "vocab_file": "vocabulary"},
    "pretrain_domain": {
        "input_file": "text",
        "general_file": "text",
        "init_checkpoint": "model",
        "vocab_file": "vocabulary",
    },
    "pack_records": {"input_file": "records"},
    "predict": {"model_dir": "model", "input_file": "lines"},
    "run_classifier": {
        "train_file": "table",
        "eval_file": "table",
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "run_multiple_choice": {
        "train_file": "questions",
        "eval_file": "questions",
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "run_ner": {
        "train_file": "columns",
        "eval_file": "columns",
        "predict_file": "lines",  # a column of words may be any text
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "run_pretraining": {
        "input_file": "records",
        "eval_file": "records",
        "general_eval_file": "records",
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "run_squad": {
        "train_file": "squad",
        "predict_file": "squad",
        "bert_config_file": "config",
        "vocab_file": "vocabulary",
        "init_checkpoint": "model",
    },
    "show_attention": {"model_dir": "model"},
}
REQUIRED = {
    "build_vocab": "input_file output_file",
    "convert_checkpoint": "init_checkpoint output_dir",
    "create_pretraining_data": "input_file output_file vocab_file",
    "export_model": "model_dir export_dir",
    "export_tflite": "model_dir output_file",
    "extend_vocab": "init_checkpoint input_file output_dir",
    "extract_features": "input_file init_checkpoint",
    "inspect_records": "vocab_file input_file",
    "pack_records": "input_file output_file",
    "predict": "model_dir",
    "pretrain_domain": "input_file init_checkpoint output_dir",
    "run_classifier": "output_dir train_file",
    "run_multiple_choice": "output_dir train_file eval_file",
    "run_ner": "output_dir train_file eval_file predict_file",
    "run_pretraining": "input_file output_dir",
    "run_squad": "output_dir train_file predict_file",
    "show_attention": "model_dir text output_file",
}
NUMBERS = {
    "build_vocab": "vocab_size min_frequency",
    "convert_checkpoint": "",
    "create_pretraining_data": "max_seq_length max_predictions_per_seq"
    " dupe_factor masked_lm_prob short_seq_prob num_workers",
    "export_model": "version max_seq_length",
    "export_tflite": "max_seq_length",
    "extend_vocab": "num_words",
    "extract_features": "batch_size max_seq_length num_threads",
    "inspect_records": "num_records max_seq_length",
    "pack_records": "max_seq_length max_sequences_per_pack window_records",
    "predict": "batch_size top_k",
    "pretrain_domain": "num_train_steps train_hours max_seq_length"
    " train_batch_size learning_rate eval_steps",
    "run_classifier": "max_seq_length train_batch_size learning_rate seed"
    " num_train_epochs warmup_proportion layer_decay eval_batch_size",
    "run_multiple_choice": "max_seq_length learning_rate num_train_epochs",
    "run_ner": "max_seq_length doc_stride lstm_size learning_rate seed"
    " num_train_epochs predict_batch_size",
    "run_pretraining": "max_seq_length train_batch_size learning_rate seed"
    " num_train_steps num_warmup_steps max_predictions_per_seq",
    "run_squad": "max_seq_length doc_stride max_query_length n_best_size"
    " max_answer_length learning_rate num_train_epochs",
    "show_attention": "max_seq_length layer head",
}


def copy_tiny_bert(folder: Path, num_layers: int = 1) -> None:
    """The golden model's lowest layers: each takes time to trace."""
    shutil.copytree(GOLDEN / "tiny_bert", folder)
    (folder / "forward.npz").unlink()
    config_file = folder / "bert_config.json"
    config = json.loads(config_file.read_text())
    config["num_hidden_layers"] = num_layers
    config_file.write_text(json.dumps(config))


def make_world(folder: Path, num_layers: int = 1) -> None:
    """All good inputs but some.tfrecord, which a command has to make."""
    copy_tiny_bert(folder / "model", num_layers)
    shutil.copy(GOLDEN / "tiny_vocab.txt", folder / "model" / "vocab.txt")
    shutil.copy(GOLDEN / "tiny_corpus.txt", folder / "corpus.txt")
    shutil.copy(GOLDEN / "squad" / "v1.json", folder / "squad.json")
    rows = [f"the captain saw {i}\t{i % 2}\n" for i in range(7)]
    (folder / "table.tsv").write_text("text\tlabel\n" + "".join(rows))
    questions = [
        {"context": "the sea", "choices": ["saw", "was", "is"][: 2 + i % 2]}
        for i in range(5)
    ]
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps({**q, "label": 1}) + "\n" for q in questions)
    )
    sentence = "the O\ncaptain B-PER\nsaw O\nthe B-LOC\nsea I-LOC\n"
    (folder / "tagged.txt").write_text(f"{sentence}\n" * 3)
    (folder / "lines.txt").write_text("the [MASK] saw the sea\n")


def arguments(command: str, **changes: str | None) -> list[str]:
    """The good ones with some changed, added, or where None left out."""
    flags: dict[str, str | None] = {}
    for flag in GOOD[command].split():
        name, _, value = flag.removeprefix("--").partition("=")
        flags[name] = value
    flags |= changes
    return [
        f"--{name}" + (f"={value}" if value else "")
        for name, value in flags.items()
        if value is not None
    ]


class _Payload:
    """What makes a file, `escaped` in the folder, when it is unpickled."""

    def __init__(self, marker: str):
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.marker,)


def make_malicious(folder: Path, marker: Path) -> list[str]:
    """Files that make `marker` if they are unpickled or unpacked blindly."""
    payload = pickle.dumps(_Payload(str(marker)))
    array = io.BytesIO()
    values = np.array([_Payload(str(marker))], dtype=object)
    np.save(array, values, allow_pickle=True)
    outside = os.path.relpath(marker, folder)
    contents = {
        "pytorch_model.bin": _zip({"archive/data.pkl": payload}),
        "old_model.bin": payload,
        "model.safetensors": payload,
        "model.pkl": payload,
        "weights.h5": payload,
        "array.npy": array.getvalue(),
        "arrays.npz": _zip({"a.npy": array.getvalue()}),
        "archive.zip": _zip({outside: b"escaped"}),
        "archive.tar": _tar(outside),
        "index.safetensors.index.json": json.dumps(
            {"weight_map": {"a": outside}}
        ).encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return list(contents)


def _zip(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _tar(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 7
        archive.addfile(entry, io.BytesIO(b"escaped"))
    return packed.getvalue()

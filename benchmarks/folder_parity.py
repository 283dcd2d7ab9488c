"""What this project makes of transformers' model folders, beside transformers.

    python benchmarks/folder_parity.py --vocab_dir=$VOCAB --work_dir=/tmp/parity

$VOCAB has the folders bert-base-uncased, bert-base-cased, bert-base-chinese,
bert-base-multilingual-cased (vocab.txt) and roberta-base (vocab.json and
merges.txt). In a separate environment (made under the work folder, or found
in --env_dir) transformers writes tiny model folders of many kinds and records
what it makes of lines in many scripts. For each folder:

- tokens, token ids and segment ids must be equal, last layers within 1e-5, and
  so must logits, probabilities and labels;
- there and back: convert_checkpoint.py makes Google's form of it and from that
  Hugging Face's again, which transformers must read with the same results.

Prints a line a folder: equal; refused, with the sentence; assumed, with what
was printed about a folder that does not state its case; or DIFFERENT, and
where. Exit code 1 if anything is DIFFERENT. Two rules are Google's, and lines
that show them are counted apart: a sigma at a word's end in lower case, and
special tokens that are spelled out in a text.
--only=TEXT takes the folders whose names have it.
"""

import argparse
import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
from peer_environments import python_of  # noqa: E402

from bert_keras.errors import InputError  # noqa: E402

PEER = ROOT / "benchmarks" / "peers" / "transformers_folders.py"
APART = ("final sigma", "special tokens spelled out")  # kinds of lines
MAX_DIFFERENCE = 1e-5
LONGEST = 260  # tokens


class Opened(NamedTuple):
    config: Any
    tokenizer: Any
    pooling: str  # of a sentence's vectors
    says: str  # what was assumed, as nothing in the folder states it


def open_folder(folder: Path) -> Opened:
    """As a command opens it that is given no other flag."""
    from bert_keras.tasks.base import open_with_task
    from bert_keras.tasks.sentence_pooling import (
        pooling_file,
        read_sentence_pooling,
    )

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        _, config, tokenizer = open_with_task(str(folder))
    said = errors.getvalue().splitlines()
    assumed = [line for line in said if "is taken to" in line]
    path = pooling_file(str(folder))
    pooling = read_sentence_pooling(path).pooling if path else "mean"
    return Opened(config, tokenizer, pooling, "".join(assumed[:1]))


def convert(source: Path, target: Path) -> None:
    from bert_keras.commands import convert_checkpoint

    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        convert_checkpoint.cli(
            [f"--init_checkpoint={source}", f"--output_dir={target}"]
        )


def answer(folder: Path, lines: list[str]) -> list[dict[str, Any]]:
    """As predict.py does."""
    from bert_keras.tasks import load
    from bert_keras.training.inference import Predictor, predict

    model = load.load(str(folder))
    run = functools.partial(predict, Predictor(model.model.outputs_by_name))
    return [found.fields for found in model.answer_all(lines, run)]


# By what they are of (states, a head), an array for each line.
Arrays = dict[str, list[np.ndarray]]


class Side(NamedTuple):
    """What one side makes of the lines."""

    rows: list[tuple[list[str], list[int], list[int]]]  # tokens, ids, segments
    arrays: Arrays


def read_answers(folder: Path, name: str) -> tuple[dict[str, Any], Side | None]:
    values = json.loads((folder / f"{name}.json").read_text())
    if values["class"] is None:
        return values, None
    rows = [
        (row["tokens"], row["input_ids"], row["segment_ids"])
        for row in values["rows"]
    ]
    with np.load(folder / f"{name}.npz") as arrays:
        return values, Side(rows, by_line(dict(arrays), rows))


def by_line(arrays: dict[str, np.ndarray], rows: list[Any]) -> Arrays:
    """Splits arrays that have a row for each token or each line."""
    ends = np.cumsum([len(ids) for _, ids, _ in rows])
    return {
        name: np.split(array, ends[:-1])
        if len(array) == ends[-1]
        else list(array)
        for name, array in arrays.items()
    }


def tokenize(opened: Opened, lines: list[Any]) -> list[Any]:
    """The rows of `Side`."""
    from bert_keras.data.input_features import build_inputs

    tokenizer, rows = opened.tokenizer, []
    for _, first, second in lines:
        tokens, segments = build_inputs(
            tokenizer.tokenize(first),
            None if second is None else tokenizer.tokenize(second),
            LONGEST,
            tokenizer.special_tokens,
        )
        rows.append((tokens, tokenizer.convert_tokens_to_ids(tokens), segments))
    return rows


def our_arrays(
    folder: Path, config: Any, rows: list[Any], has_tags: bool = False
) -> Arrays:
    """What the folder's weights make of the other side's rows; `has_tags`:
    whether its classifier reads each token."""
    from keras import ops

    from bert_keras.data.input_features import InputFeatures, pad
    from bert_keras.modeling.checkpoint import (
        CLASSIFIER,
        NEXT_SENTENCE,
        SPAN,
        AnyModel,
        load_checkpoint,
        open_weights,
    )
    from bert_keras.modeling.encoder import read_by_heads

    model = AnyModel(config, open_weights(str(folder)).shapes)
    load_checkpoint(model.mappings(), str(folder))
    longest = max(len(ids) for _, ids, _ in rows)
    batch = pad([InputFeatures(i, s) for _, i, s in rows], longest, len(rows))
    encoded = model.encoder(
        *(batch[n] for n in ("input_ids", "input_mask", "segment_ids"))
    )
    is_text = batch["input_mask"].astype(bool)

    def everywhere(vectors: Any) -> np.ndarray:
        return ops.convert_to_numpy(vectors)[is_text]

    tokens = read_by_heads(model.encoder, encoded.sequence)
    arrays = {"states": everywhere(encoded.sequence)}
    if model.has_pooler:
        arrays["pooled"] = ops.convert_to_numpy(encoded.pooled)
    if model.masked_lm is not None:
        table = model.encoder.embeddings.word_embeddings.value
        arrays["masked_lm"] = ops.convert_to_numpy(
            model.masked_lm(tokens[:5, 1:2], table)
        )[:, 0]
    names = {CLASSIFIER: "classifier", NEXT_SENTENCE: "next_sentence"}
    for root, head in model.heads.items():
        if root == SPAN:
            arrays["span"] = everywhere(head(tokens))
        elif has_tags:
            arrays["classifier"] = everywhere(head(tokens))
        else:
            logits = head(encoded.pooled)
            arrays[names[root]] = ops.convert_to_numpy(logits)
    return by_line(arrays, rows)


class Comparison:
    """What is found in a folder: differences, and lines that are apart."""

    def __init__(self, lines: list[Any]):
        self.lines = lines
        self.differences: list[str] = []
        self.num_apart = 0
        self.refusal = ""  # of the way there and back
        self.says = ""  # of a folder that does not state its case

    def rows(self, what: str, ours: list[Any], theirs: list[Any]) -> list[int]:
        """Returns the numbers of the lines that are equal, or apart."""
        wrong = []
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if mine == other:
                continue
            if self.lines[number][0] in APART:
                self.num_apart += 1
            else:
                wrong.append(number)
        if wrong:
            kinds = ", ".join(self.lines[number][0] for number in wrong[:6])
            more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
            first = _first_difference(ours[wrong[0]], theirs[wrong[0]])
            self.differences.append(
                f"{what} of {len(wrong)} of {len(self.lines)} lines ({kinds}"
                f"{more}): {first}"
            )
        return [i for i in range(len(ours)) if i not in wrong]

    def arrays(
        self, what: str, ours: Arrays, theirs: Arrays, numbers: Iterable[int]
    ) -> None:
        """Compares the lines with these numbers, except those apart."""
        chosen = [i for i in numbers if self.lines[i][0] not in APART]
        for name, expected in theirs.items():
            if name not in ours:
                self.differences.append(f"{what}{name}: missing")
                continue
            off = [
                float(np.abs(ours[name][i] - expected[i]).max())
                for i in chosen
                if i < len(expected)
            ]
            if not max(off, default=0.0) <= MAX_DIFFERENCE:
                self.differences.append(f"{what}{name} {max(off):.2g} off")


def _first_difference(mine: Any, other: Any) -> str:
    for name, ours, theirs in zip(
        ("token", "id", "segment id"), mine, other, strict=True
    ):
        for i in range(max(len(ours), len(theirs))):
            if ours[i : i + 1] != theirs[i : i + 1]:
                a, b = (
                    " ".join(map(repr, x[i : i + 3])) for x in (ours, theirs)
                )
                return f"{name} {i} is {a or 'none'}, not {b or 'none'}"
    raise AssertionError("equal")


def compare_answers(
    comparison: Comparison, folder: Path, values: Any, theirs: Side
) -> None:
    """Labels, and probabilities of those lines that tokenize as theirs do."""
    from bert_keras.tasks.task_config import TaskConfig

    task = TaskConfig.from_folder(str(folder))
    class_name = values["class"]
    is_text = class_name.endswith("ForSequenceClassification")
    if task is None or not (
        is_text or class_name.endswith("ForTokenClassification")
    ):
        return
    if task.target != "regression" and list(task.labels) != values["labels"]:
        comparison.differences.append(
            f"labels {list(task.labels)}, not {values['labels']}"
        )
    if not is_text:
        return
    chosen, lines = [], []
    ours = tokenize(open_folder(folder), comparison.lines)
    for number, (_, first, second) in enumerate(comparison.lines):
        texts = [first] if second is None else [first, second]
        if ours[number] == theirs.rows[number] and not any(
            sign in text for sign in "\t\r\n" for text in texts
        ):
            chosen.append(number)
            lines.append("\t".join(texts))
    found = [
        fields.get("value", fields.get("probabilities"))
        for fields in answer(folder, lines)
    ]
    logits = np.stack(theirs.arrays["classifier"]).astype(np.float64)
    if task.target == "regression":
        scores = logits
    elif task.target == "multi_label":
        scores = 1 / (1 + np.exp(-logits))
    else:
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
    mine = [
        np.array(
            [fields[label] for label in values["labels"]]
            if isinstance(fields, dict)
            else [fields]
        )
        for fields in found
    ]
    off = [
        np.abs(a - scores[i]).max() for i, a in zip(chosen, mine, strict=True)
    ]
    if not max(off, default=0.0) <= MAX_DIFFERENCE:
        comparison.differences.append(f"probabilities {max(off):.2g} off")


def compare_folder(work: Path, name: str, lines: list[Any]) -> Comparison:
    """Raises an InputError where the folder is refused."""
    folder, google = work / "folders" / name, work / "google" / name
    values, theirs = read_answers(work / "answers", name)
    comparison = Comparison(lines)
    opened = open_folder(folder)
    comparison.says = opened.says
    if theirs is None:
        our_arrays(folder, opened.config, tokenize(opened, lines))
        comparison.differences.append("opened, which should be refused")
        return comparison
    every = range(len(lines))
    comparison.rows("tokens", tokenize(opened, lines), theirs.rows)
    has_tags = values["class"].endswith("ForTokenClassification")
    ours = our_arrays(folder, opened.config, theirs.rows, has_tags)
    comparison.arrays("", ours, theirs.arrays, every)
    pooling = folder / "1_Pooling" / "config.json"
    if pooling.exists():
        said = json.loads(pooling.read_text())
        modes = [name for name, is_on in said.items() if is_on is True]
        if not any(f"_{opened.pooling}_token" in name for name in modes):
            comparison.differences.append(f"pooling by {opened.pooling}")
    try:
        convert(folder, google)
    except InputError as error:
        comparison.refusal = str(error)
        return comparison
    again = open_folder(google)
    comparison.rows(
        "Google's form: tokens", tokenize(again, lines), theirs.rows
    )
    arrays = our_arrays(google, again.config, theirs.rows, has_tags)
    comparison.arrays("Google's form: ", arrays, theirs.arrays, every)
    compare_answers(comparison, google, values, theirs)
    try:
        convert(google, work / "again" / name)
    except InputError as error:
        comparison.refusal = str(error)
    return comparison


def compare_again(comparison: Comparison, work: Path, name: str) -> None:
    """What transformers makes of a folder that has been there and back."""
    values, before = read_answers(work / "answers", name)
    again, after = read_answers(work / "again_answers", name)
    assert before is not None
    if after is None:
        comparison.differences.append(f"there and back: {again['error']}")
        return
    numbers = comparison.rows("there and back: tokens", after.rows, before.rows)
    comparison.arrays("there and back: ", after.arrays, before.arrays, numbers)
    keys = ["class"]
    if values["class"].endswith(
        ("SequenceClassification", "TokenClassification")
    ):
        keys += ["labels"]
    if values["problem_type"] is not None:
        keys += ["problem_type"]
    for key in keys:
        if again[key] != values[key]:
            comparison.differences.append(
                f"there and back: {key} {again[key]}, not {values[key]}"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab_dir", type=Path, required=True)
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--env_dir", type=Path, help="Else envs in --work_dir.")
    parser.add_argument("--only", default="")
    flags = parser.parse_args()
    work = flags.work_dir.absolute()
    work.mkdir(parents=True, exist_ok=True)
    env_dir = (flags.env_dir or work / "envs").absolute()
    python = python_of("transformers_current", env_dir, None)
    if not (work / "made").exists():
        for made in ("folders", "answers"):
            shutil.rmtree(work / made, ignore_errors=True)
        vocab_dir = f"--vocab_dir={flags.vocab_dir.absolute()}"
        run_peer(python, "make", vocab_dir, f"--work_dir={work}")
        (work / "made").touch()
    for found in ("google", "again", "again_answers"):
        shutil.rmtree(work / found, ignore_errors=True)
    (work / "again").mkdir()
    lines = json.loads((work / "lines.json").read_text())
    names = [
        path.name
        for path in sorted((work / "folders").iterdir())
        if flags.only in path.name
    ]
    results: dict[str, Comparison | str] = {}
    for name in names:
        try:
            results[name] = compare_folder(work, name, lines)
        except InputError as error:
            results[name] = f"refused: {error}"
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            results[name] = f"DIFFERENT: a crash: {' '.join(words.split())}"
    run_peer(python, "read", f"--work_dir={work}")
    counts = dict.fromkeys(("equal", "refused", "assumed", "DIFFERENT"), 0)
    num_apart = 0
    for name, result in results.items():
        if isinstance(result, Comparison):
            if (work / "again" / name).exists():
                compare_again(result, work, name)
            num_apart += result.num_apart
            if result.differences and result.says:
                result = f"assumed: {result.says}"
            elif result.differences:
                result = f"DIFFERENT: {'; '.join(result.differences)}"
            elif result.refusal:
                result = f"refused: converting it: {result.refusal}"
            else:
                result = "equal"
        counts[result.partition(":")[0]] += 1
        print(f"{name}: {result.replace(f'{work}/', '')}")
    print(
        f"{len(results)} folders: "
        f"{', '.join(f'{number} {kind}' for kind, number in counts.items())}; "
        f"{num_apart} lines differ by Google's rules"
    )
    sys.exit(counts["DIFFERENT"] > 0)


def run_peer(python: str, *arguments: str) -> None:
    done = subprocess.run([python, str(PEER), *arguments])
    if done.returncode:
        sys.exit(f"exit code {done.returncode} of {PEER.name} {arguments[0]}")


if __name__ == "__main__":
    main()

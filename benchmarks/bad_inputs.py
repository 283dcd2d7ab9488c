"""Bad inputs through every command: what each says, and what it leaves behind.

    python benchmarks/bad_inputs.py
    python benchmarks/bad_inputs.py --commands run_squad predict --kinds model

For each input the command has to exit with 1 and one sentence on standard
error, and no file that was there before may be another afterwards: neither the
inputs nor older outputs of the same name. First each command is run on good
inputs, or else a refusal would say nothing. Prints a table, a line a kind:
inputs, tracebacks, exit codes other than 1, answers that are not one sentence,
damaged files, and the most memory that any took; then what was wrong, one by
one. The exit code is 1 if anything was. Commands are forks of one process that
has imported TensorFlow (tests/forked_commands.py), so that some hundred take
minutes; not on Windows.
"""

import argparse
import collections
import gzip
import hashlib
import json
import pickle
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bert_keras.data import tfrecords  # noqa: E402
from tests.command_world import (  # noqa: E402
    FILES,
    GOOD,
    NUMBERS,
    REQUIRED,
    arguments,
    make_malicious,
    make_world,
)
from tests.forked_commands import Commands, Ended  # noqa: E402

OUTPUTS = ("output_file", "output_dir", "export_dir")
DEEP = b"[" * 200_000
ENDINGS = {
    "table": ".tsv",
    "squad": ".json",
    "questions": ".jsonl",
    "config": ".json",
    "text": ".txt",
}


class Case(NamedTuple):
    kind: str  # a line of the table
    command: str
    args: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", nargs="+", default=list(GOOD))
    parser.add_argument("--kinds", nargs="+", help="that begin with any of")
    parser.add_argument("--limit", type=int, help="inputs, drawn at random")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Commands() as commands:
        folder = Path(name) / "world"
        folder.mkdir()
        prepare(folder, commands, args.commands)
        cases = [
            case
            for case in all_cases(folder)
            if case.command in args.commands
            and case.kind.startswith(tuple(args.kinds or [""]))
        ]
        if args.limit:
            cases = random.Random(0).sample(cases, args.limit)
        sys.exit(report(cases, folder, commands))


def prepare(folder: Path, commands: Commands, names: list[str]) -> None:
    """Makes the inputs, and sees that each command takes the good ones."""
    make_world(folder, num_layers=3)  # all that its checkpoint has
    making = "create_pretraining_data"
    for name in [making, *(name for name in names if name != making)]:
        ended = commands.run(f"{name}.py", *arguments(name), cwd=str(folder))
        assert ended.code == 0, (name, ended)
        if name == making:
            made = folder / "out" / "made.tfrecord"
            shutil.copy(made, folder / "some.tfrecord")
        shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "bad").mkdir()


def report(cases: list[Case], folder: Path, commands: Commands) -> int:
    """Tries them and prints the table; returns the exit code."""
    counts: dict[str, collections.Counter[str]] = {}
    peaks: collections.Counter[str] = collections.Counter()
    faults = []
    for case in cases:
        ended, damaged = attempt(case, folder, commands)
        found = {
            "inputs": True,
            "tracebacks": ended.fault == "a traceback",
            "exits": ended.code != 1,
            "sentences": ended.fault.endswith("sentences"),
            "damaged": bool(damaged),
        }
        counts.setdefault(case.kind, collections.Counter()).update(found)
        peaks[case.kind] = max(peaks[case.kind], ended.peak_mib)
        if ended.fault or damaged:
            faults.append(describe(case, ended, damaged))
            print(faults[-1], file=sys.stderr, flush=True)
    show(counts, peaks)
    print(*faults, sep="\n")
    return int(bool(faults))


def attempt(
    case: Case, folder: Path, commands: Commands
) -> tuple[Ended, list[str]]:
    """How the command ended, and which files are not as they were."""
    old = folder / "out"
    shutil.rmtree(old, ignore_errors=True)
    (old / "run").mkdir(parents=True)
    for name in ("vocab.txt", "made.tfrecord", "f.jsonl", "packed.tfrecord",
                 "answers.tsv", "run/keep.txt"):  # fmt: skip
        (old / name).write_text("an older output")
    before = fingerprints(folder)
    ended = commands.run(f"{case.command}.py", *case.args, cwd=str(folder))
    after = fingerprints(folder)
    damaged = [name for name in before if after.get(name) != before[name]]
    outside = [p.name for p in folder.parent.iterdir() if p != folder]
    return ended, damaged + outside


def fingerprints(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha1(
            path.read_bytes()
        ).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def describe(case: Case, ended: Ended, damaged: list[str]) -> str:
    last = ended.errors.strip().splitlines()[-1:] or [""]
    return (
        f"{case.kind}: {case.command} {' '.join(case.args)}\n"
        f"    {ended.fault or 'refused'}; {last[0]:.300}"
        + f"\n    damaged: {', '.join(damaged)}"
        * bool(damaged)
    )


def show(
    counts: dict[str, collections.Counter[str]],
    peaks: collections.Counter[str],
) -> None:
    columns = ("inputs", "tracebacks", "exits", "sentences", "damaged")
    print(f"{'kind':<32}" + "".join(f"{c:>12}" for c in columns) + " peak MiB")
    total: collections.Counter[str] = collections.Counter()
    for kind, found in counts.items():
        total.update(found)
        numbers = "".join(f"{found[column]:>12,}" for column in columns)
        print(f"{kind:<32}{numbers}{peaks[kind]:>9,}")
    numbers = "".join(f"{total[column]:>12,}" for column in columns)
    print(f"{'all':<32}{numbers}{max(peaks.values(), default=0):>9,}")


def all_cases(folder: Path) -> Iterator[Case]:
    yield from file_cases(folder)
    yield from model_cases(folder)
    yield from wrong_configs(folder)
    yield from wrong_tables(folder)
    yield from flag_cases()
    yield from output_cases(folder)
    for command, more in COMBINATIONS:
        yield combined(command, more)


def file_cases(folder: Path) -> Iterator[Case]:
    """Each flag that names a file, with files that are something else."""
    for command, flags in FILES.items():
        for flag, kind in flags.items():
            if kind == "model":
                continue
            good = arguments(command)
            [given] = [x for x in good if x.startswith(f"--{flag}=")]
            content = (folder / given.partition("=")[2]).read_bytes()
            for name, path in bad_files(folder, kind, content):
                changed = arguments(command, **{flag: path})
                yield Case(name, command, changed)


def bad_files(
    folder: Path, kind: str, good: bytes
) -> Iterator[tuple[str, str]]:
    """What is wrong with a file, and its path."""
    yield "no such file", "bad/nothing"
    yield "a folder for a file", "model"
    if kind == "lines":
        return
    ending = ENDINGS.get(kind, "")
    rng = random.Random(1)
    contents = {
        "random bytes": rng.randbytes(3000),
        "latin-1": "größe\tname\n".encode("latin-1"),
        "a cut file of UTF-16": good.decode("latin-1").encode("utf-16")[:-1],
        "a pickle": pickle.dumps(["weights", 1.0]),
    }
    if kind != "text":  # where any text will do
        contents |= {
            "an empty file": b"",
            "zeros": bytes(3000),
            "nested 200,000 times": DEEP,
            "a line of 10 MB": b"x" * 10_000_000,
            "a program": Path(sys.executable).read_bytes()[:100_000],
        }
    if kind in ("config", "squad", "records"):
        contents |= {
            "a truncated file": good[: min(100, len(good) // 2)],
            "another kind of JSON": b'{"a": [1, {"b": null}]}',
            "a long number": b'{"vocab_size": ' + b"1" * 9999 + b"}",
        }
    if kind == "records":
        flipped = bytearray(good)
        flipped[len(good) // 100] ^= 1
        contents["flipped bytes"] = bytes(flipped)
        # at the front, as not every command reads to the end
        contents["a record of 2 ** 40 bytes"] = tfrecords._head(2**40) + good
    for name, content in contents.items():
        path = f"bad/{kind}-{name.replace(' ', '-')}{ending}"
        (folder / path).write_bytes(content)
        yield name, path
    if kind in ("text", "table", "records"):
        cut = gzip.compress(rng.randbytes(9000))[:5000]
        for name, content in ("no .gz", good), ("half of a .gz", cut):
            path = f"bad/{kind}-{name.replace(' ', '-')}{ending}.gz"
            (folder / path).write_bytes(content)
            yield name, path


def model_cases(folder: Path) -> Iterator[Case]:
    """Folders and checkpoints that are no model, or another."""
    marker = folder.parent / "escaped"
    malicious = folder / "bad" / "malicious"
    malicious.mkdir(exist_ok=True)
    names = make_malicious(malicious, marker)
    places = [("malicious", f"bad/malicious/{name}") for name in names]
    places += bad_models(folder).items()
    for command, flags in FILES.items():
        for flag in (f for f, kind in flags.items() if kind == "model"):
            for name, path in places:
                args = arguments(command, **{flag: path})
                yield Case(f"model: {name}", command, args)


def bad_models(folder: Path) -> dict[str, str]:
    """What is wrong with a model folder -> its path."""
    made = {"no such folder": "bad/no-model", "a text": "corpus.txt"}
    (folder / "bad" / "empty").mkdir(exist_ok=True)
    made["an empty folder"] = "bad/empty"
    index, data = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
    config = json.loads((folder / "model" / "bert_config.json").read_text())
    changes: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
        "index truncated": (index, lambda x: x[: len(x) // 2]),
        "data truncated": (data, lambda x: x[:1000]),
        "data flipped": (data, lambda x: x[:999] + b"\xff\0\xff" + x[1002:]),
        "index random": (index, lambda x: random.Random(2).randbytes(len(x))),
        "index empty": (index, lambda x: b""),
    }
    for name, (file, change) in changes.items():
        path = folder / "bad" / f"model-{name.replace(' ', '-')}"
        shutil.copytree(folder / "model", path, dirs_exist_ok=True)
        content = (path / file).read_bytes()
        (path / file).write_bytes(change(content))
        made[name] = str(path.relative_to(folder))
    path = folder / "bad" / "model-of-pickles"
    path.mkdir(exist_ok=True)
    (path / "pytorch_model.bin").write_bytes(pickle.dumps([1]))
    (path / "bert_config.json").write_text(json.dumps(config))
    made["a folder with a pickle"] = "bad/model-of-pickles"
    return made


def wrong_configs(folder: Path) -> Iterator[Case]:
    """Configs of JSON with values that no such model has."""
    text = (folder / "model" / "bert_config.json").read_text()
    changes: tuple[tuple[str, object], ...] = (
        ("vocab_size", 11), ("vocab_size", -1), ("vocab_size", 2**40),
        ("vocab_size", "101"), ("vocab_size", None), ("hidden_size", 41),
        ("hidden_size", 80), ("hidden_size", 1.5), ("hidden_act", "swish"),
        ("hidden_act", []), ("num_attention_heads", 0),
        ("num_hidden_layers", True), ("hidden_dropout_prob", 1),
        ("hidden_dropout_prob", "0.1"), ("initializer_range", -1),
        ("max_position_embeddings", 8), ("type_vocab_size", 0),
    )  # fmt: skip
    for command, flags in FILES.items():
        if "bert_config_file" not in flags:
            continue
        for number, (name, value) in enumerate(changes):
            path = f"bad/config-{number}.json"
            changed = json.dumps({**json.loads(text), name: value})
            (folder / path).write_text(changed)
            args = arguments(command, bert_config_file=path)
            yield Case("config: wrong values", command, args)


def wrong_tables(folder: Path) -> Iterator[Case]:
    contents = {
        "ragged.tsv": "text\tlabel\na\tb\tc\n",
        "columns.tsv": "sentence\tclass\na\t1\n",
        "header.tsv": "text\tlabel\n",
        "open.csv": 'text,label\n"a,1\n',
        "list.jsonl": "[1, 2]\n",
        "deep.jsonl": '{"text": ' + "[" * 900 + "]" * 900 + "}\n",
        "some.json": '{"text": "a"}\n',
        "ending.xlsx": "text\tlabel\na\t1\n",
        "unknown.tsv": "text\tlabel\na\t0\nb\tperhaps\n",
    }
    for name, content in contents.items():
        (folder / "bad" / name).write_text(content)
        for flag in ("train_file", "eval_file"):
            if (flag, name) == ("train_file", "unknown.tsv"):
                continue  # labels are those of this file
            args = arguments("run_classifier", **{flag: f"bad/{name}"})
            yield Case("table: wrong rows", "run_classifier", args)


def flag_cases() -> Iterator[Case]:
    """Flags that are unknown, missing, empty, or of another type or range."""
    for command in GOOD:
        good = arguments(command)
        yield Case("flags: unknown", command, [*good, "--no_such_flag=1"])
        yield Case("flags: not a bool", command, [*good, "--do_lower_case=2"])
        if command not in ("predict", "create_pretraining_data"):
            yield Case("flags: an argument", command, [*good, "argument"])
        yield Case("flags: none", command, [])
        for flag in REQUIRED[command].split():
            for name, value in ("missing", None), ("empty", ""):
                args = arguments(command, **{flag: None})
                args += [] if value is None else [f"--{flag}="]
                yield Case(f"flags: {name}", command, args)
        for flag in NUMBERS[command].split():
            for value in ("x", "-3", "1e400", "nan", ""):
                args = [*good, f"--{flag}={value}"]
                yield Case("flags: no such number", command, args)


def output_cases(folder: Path) -> Iterator[Case]:
    """Outputs that cannot be written where they are wanted."""
    for command in GOOD:
        for arg in arguments(command):
            flag = arg.removeprefix("--").partition("=")[0]
            if flag not in OUTPUTS:
                continue
            places = ["corpus.txt/x", "/proc/x", "/dev/null/x"]
            places.append("model" if flag == "output_file" else "corpus.txt")
            for place in places:
                args = arguments(command, **{flag: place})
                yield Case("output: cannot be written", command, args)


# A command, and what does not go together.
COMBINATIONS = (
    ("run_classifier", "--do_train=false --do_eval=false"),
    ("run_classifier", "--task_name=MRPC --data_dir=model"),
    ("run_classifier", "--train_file= --eval_file= --task_name=MRPC"),
    ("run_classifier", "--train_file= --eval_file= --task_name=nothing"
                       " --data_dir=model"),
    ("run_classifier", "--text_column=nothing"),
    ("run_classifier", "--label_column=nothing"),
    ("run_classifier", "--has_header=false"),
    ("run_classifier", "--target=regression --class_weights=balanced"),
    ("run_classifier", "--class_weights=x"),
    ("run_classifier", "--class_weights=7=1"),
    ("run_classifier", "--label_separator="),
    ("run_classifier", "--patience=2"),
    ("run_classifier", "--best_metric=f1"),
    ("run_classifier", "--eval_steps=1 --best_metric=nothing"),
    ("run_classifier", "--max_seq_length=62"),
    ("run_classifier", "--train_batch_size=1000"),
    ("run_classifier", "--num_frozen_layers=9"),
    ("run_classifier", "--num_accumulation_steps=3"),
    ("run_classifier", "--precision=float8"),
    ("run_multiple_choice", "--eval_file= --do_train=false"),
    ("run_multiple_choice", "--train_batch_size=1000"),
    ("run_multiple_choice", "--best_metric=eval_f1 --eval_steps=1"),
    ("run_ner", "--do_train=false"),
    ("run_ner", "--document_context"),
    ("run_ner", "--feature_layers=concat_last_four"),
    ("run_ner", "--feature_layers=last --dry_run"),
    ("run_ner", "--max_seq_length=3"),
    ("run_pretraining", "--do_train=false --do_eval=false"),
    ("run_pretraining", "--max_seq_length=33"),
    ("run_pretraining", "--max_seq_length=62"),
    ("run_pretraining", "--max_predictions_per_seq=6"),
    ("run_pretraining", "--num_accumulation_steps=3"),
    ("run_squad", "--do_train=false --do_predict=false"),
    ("run_squad", "--max_query_length=48"),
    ("run_squad", "--max_seq_length=62"),
    ("run_squad", "--apply_best_null_threshold"),
    ("run_squad", "--train_batch_size=1000"),
    ("create_pretraining_data", "--sampler=google --dynamic_masking"),
    ("create_pretraining_data", "--words_are_spaced"),
    ("create_pretraining_data", "--max_seq_length=4"),
    ("create_pretraining_data", "--input_format=jsonl"),
    ("create_pretraining_data", "--output_file=out/a,out/a"),
    ("create_pretraining_data", "--dynamic_masking --masked_lm_prob=0.2"),
    ("build_vocab", "--vocab_size=5"),
    ("convert_checkpoint", "--output_dir=model"),
    ("convert_checkpoint", "--hidden_act=nothing"),
    ("extract_features", "--layers=x"),
    ("extract_features", "--layers=9"),
    ("extract_features", "--max_seq_length=62"),
    ("export_model", "--max_seq_length=62"),
    ("inspect_records", "--text_file=corpus.txt"),
    ("pack_records", "--max_seq_length=31"),
    ("predict", "--output_format=nothing"),
    ("pretrain_domain", "--train_hours=1"),
    ("pretrain_domain", "--max_seq_length=62"),
    ("pretrain_domain", "--input_format=jsonl"),
    ("show_attention", "--head=0"),
    ("show_attention", "--output_file=out/map.png --layer=9"),
)  # fmt: skip


def combined(command: str, more: str) -> Case:
    """Of two flags of a name the later one counts."""
    args = [*arguments(command), *more.split()]
    return Case("flags that do not go together", command, args)


if __name__ == "__main__":
    main()

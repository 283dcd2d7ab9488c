"""The ablations of Devlin et al. 2018 in a small size: its tables 5, 6 and 8.

    python benchmarks/ablations.py --data=$DATA --wiki=/tmp/wiki \\
        --output_dir=/tmp/ablations

$DATA has glue/ and conll2003/; /tmp/wiki is what wiki_tasks.py made. Records
without masks serve every row: masks are drawn, and next tokens taken, while
they are read. Each row is pre-trained by run_pretraining.py, first on full
sentences and then on pairs, since a small model that begins with pairs learns
little but the words' frequencies in this time. It is fine-tuned with several
seeds, as pretraining_pays.py does; a BiLSTM and a second model only where
run_classifier.py does it. What is in output_dir already is not run again.
Prints a table for each of the paper's.
"""

import argparse
import dataclasses
import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kept_runs import KeptRuns, results
from pretraining_pays import TASKS, data_flags

EVAL_BATCH_SIZE, MAX_EVAL_STEPS = 64, 40
FORMS = "full_sentences", "segment_pair"  # of the records, in this order
NO_NSP = "--nonext_sentence_prediction"


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    model: str  # what is pre-trained, among PRETRAINING
    fine_tuning: tuple[str, ...] = ()  # flags
    second_model: str | None = None


def shares(mask: float, random: float) -> tuple[str, ...]:
    return f"--mask_share={mask}", f"--random_share={random}"


PRETRAINING = {  # by folder: flags
    "bert": (),
    "no_nsp": (NO_NSP,),
    "ltr": (NO_NSP, "--direction=left_to_right"),
    "rtl": (NO_NSP, "--direction=right_to_left"),
    "100-0-0": shares(1.0, 0.0),
    "80-0-20": shares(0.8, 0.2),
    "80-20-0": shares(0.8, 0.0),
    "0-20-80": shares(0.0, 0.8),
    "0-0-100": shares(0.0, 1.0),
}
# What is the same until there are pairs
FIRST = {"no_nsp": "bert"}
SIZES = {  # by folder: what differs in the config
    "1-layer": {"num_hidden_layers": 1},
    "1-head": {"num_attention_heads": 1},
    "4-layers": {"num_hidden_layers": 4},
}
TABLES = {
    "5": (
        Row("BERT", "bert"),
        Row("No NSP", "no_nsp"),
        Row("LTR & No NSP", "ltr"),
        Row("+ BiLSTM", "ltr", ("--bilstm",)),
        Row("LTR and RTL side by side", "ltr", (), "rtl"),
    ),
    "6": (
        Row("half the layers", "1-layer"),
        Row("half the heads", "1-head"),
        Row("BERT", "bert"),
        Row("twice the layers", "4-layers"),
    ),
    "8": (
        Row("80 / 10 / 10", "bert"),
        Row("100 / 0 / 0", "100-0-0"),
        Row("80 / 0 / 20", "80-0-20"),
        Row("80 / 20 / 0", "80-20-0"),
        Row("0 / 20 / 80", "0-20-80"),
        Row("0 / 0 / 100", "0-0-100"),
    ),
}
HEADINGS = {
    "5": "table 5",
    "6": "table 6",
    "8": "table 8: [MASK] / same / random",
}


class Bench(KeptRuns):
    """Commands of this repository and what they leave in one folder."""

    def __init__(self, flags: argparse.Namespace):
        super().__init__(flags.output_dir)
        self.flags = flags
        self.vocab_file = flags.vocab_file or str(self.folder / "vocab.txt")

    def make_data(self) -> None:
        """Texts, vocabulary, config and records."""
        texts = self.split(self.flags.wiki / "general" / "train.txt")
        self.run(
            Path(self.vocab_file),
            "build_vocab.py",
            f"--input_file={texts[0]}",
            f"--output_file={self.vocab_file}",
            f"--vocab_size={self.flags.vocab_size}",
        )
        for path, form in itertools.product(texts, FORMS):
            records = path.with_suffix(f".{form}.tfrecord")
            self.run(
                records,
                "create_pretraining_data.py",
                f"--input_file={path}",
                f"--output_file={records}",
                f"--vocab_file={self.vocab_file}",
                "--input_format=paragraphs",
                f"--sequence_format={form}",
                "--dynamic_masking",
                "--dupe_factor=1",
                *self._lengths,
            )

    def pretrain(self, name: str) -> dict[str, float]:
        """What the model says of held-out pairs."""
        flags, first = self.flags, FIRST.get(name, name)
        config_file = self.folder / f"{first}-bert_config.json"
        config = self._config() | SIZES.get(name, {})
        config_file.write_text(json.dumps(config, indent=2) + "\n")
        sentences = self.folder / f"{first}-sentences"
        self._train(
            sentences,
            FORMS[0],
            f"--bert_config_file={config_file}",
            f"--num_train_steps={flags.num_train_steps}",
            f"--num_warmup_steps={flags.num_warmup_steps}",
            f"--learning_rate={flags.learning_rate}",
            *(x for x in PRETRAINING.get(first, ()) if x != NO_NSP),
        )
        folder = self.folder / name
        self._train(
            folder,
            FORMS[1],
            f"--init_checkpoint={sentences}",
            f"--num_train_steps={flags.num_pair_steps}",
            f"--num_warmup_steps={flags.num_pair_steps // 10}",
            f"--learning_rate={flags.learning_rate / 2}",
            *PRETRAINING.get(name, ()),
        )
        return results(folder)

    def _train(self, folder: Path, form: str, *others: str) -> None:
        self.run(
            folder / "eval_results.txt",
            "run_pretraining.py",
            *("--do_train", "--do_eval"),
            f"--input_file={self.folder}/train.{form}.tfrecord",
            f"--eval_file={self.folder}/held_out.{form}.tfrecord",
            f"--vocab_file={self.vocab_file}",
            f"--output_dir={folder}",
            f"--train_batch_size={self.flags.train_batch_size}",
            f"--eval_batch_size={EVAL_BATCH_SIZE}",
            f"--max_eval_steps={MAX_EVAL_STEPS}",
            *self._lengths,
            *others,
        )

    def fine_tune(self, row: Row, task: str) -> list[float]:
        """The task's score on dev, seed by seed."""
        script, score, epochs = TASKS[task]
        second = row.second_model
        extra = "".join(row.fine_tuning) + (f"+{second}" if second else "")
        folder = self.folder / f"{row.model}{extra}-{task}"
        data = data_flags(task, self.flags.data, self.flags.wiki)
        arguments = [
            *("--do_train", *data),
            f"--init_checkpoint={self.folder / row.model}",
            f"--output_dir={folder}",
            f"--max_seq_length={self.flags.max_seq_length}",
            f"--learning_rate={self.flags.fine_tuning_rate}",
            f"--num_train_epochs={epochs}",
            "--train_batch_size=32",
            *("--seed=1", f"--num_seeds={self.flags.num_seeds}"),
            *row.fine_tuning,
        ]
        if second:
            path = self.folder / second
            arguments.append(f"--second_init_checkpoint={path}")
        found = folder / "seeds.json"
        self.run(found, script, *arguments)
        seeds = json.loads(found.read_text())["seeds"].values()
        return [100 * metrics[f"eval_{score}"] for metrics in seeds]

    @property
    def _lengths(self) -> tuple[str, str]:
        length = self.flags.max_seq_length
        predictions = round(0.15 * length)
        return (
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={predictions}",
        )

    def _config(self) -> dict[str, Any]:
        flags = self.flags
        lines = Path(self.vocab_file).read_text("utf-8").splitlines()
        return {
            # It is trained too little to be in need of dropout.
            "attention_probs_dropout_prob": 0.0,
            "hidden_dropout_prob": 0.0,
            "hidden_act": "gelu",
            "hidden_size": flags.hidden_size,
            "initializer_range": 0.06,  # as make demo: narrow layers
            "intermediate_size": 4 * flags.hidden_size,
            "max_position_embeddings": flags.max_seq_length,
            "num_attention_heads": max(flags.hidden_size // 64, 1),
            "num_hidden_layers": flags.num_layers,
            "type_vocab_size": 2,
            "vocab_size": len(lines),
        }


def cells(bench: Bench, row: Row) -> Iterator[str]:
    models = filter(None, (row.model, row.second_model))
    figures = [*map(bench.pretrain, models)]
    yield row.name
    yield ", ".join(f"{found['masked_lm_loss']:.3f}" for found in figures)
    yield ", ".join(
        f"{100 * found['masked_lm_accuracy']:.1f}" for found in figures
    )
    for task in bench.flags.tasks:
        if TASKS[task][0] == "run_ner.py" and (
            row.fine_tuning or row.second_model
        ):
            yield from ("", "")
            continue
        values = bench.fine_tune(row, task)
        yield f"{statistics.median(values):.1f}"
        yield ", ".join(f"{value:.1f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wiki", type=Path, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--vocab_file", help="else one is learnt of the text")
    parser.add_argument("--vocab_size", type=int, default=8000)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument(
        "--tasks", nargs="+", default=["STS-B", "topic", "which_sport", "CoNLL"]
    )
    parser.add_argument("--num_layers", type=int, default=2)
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--train_batch_size", type=int, default=64)
    parser.add_argument("--num_train_steps", type=int, default=3500)
    parser.add_argument("--num_pair_steps", type=int, default=2000)
    parser.add_argument("--num_warmup_steps", type=int, default=700)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--fine_tuning_rate", type=float, default=3e-4)
    parser.add_argument("--num_seeds", type=int, default=3)
    flags = parser.parse_args()
    if flags.num_seeds < 2:
        parser.error("--num_seeds: expected 2 or more, for seeds.json")
    bench = Bench(flags)
    bench.make_data()
    scores = [x for t in flags.tasks for x in (f"{t} {TASKS[t][1]}", "by seed")]
    tables = {
        name: [list(cells(bench, row)) for row in TABLES[name]]
        for name in flags.tables
    }
    for name, rows in tables.items():
        columns = [HEADINGS[name], "masked loss", "masked accuracy", *scores]
        print(f"\n| {' | '.join(columns)} |")
        print("|---" * len(columns) + "|")
        for row in rows:
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()

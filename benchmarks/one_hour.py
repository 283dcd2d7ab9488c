"""The recipe tiny_on_a_laptop, and each of its settings changed alone.

    python benchmarks/one_hour.py --wiki=/tmp/wiki --data=$DATA \\
        --output_dir=/tmp/hour

/tmp/wiki is what wiki_tasks.py made. Each row is a BERT of two layers of 128,
pre-trained from scratch for one hour, and then evaluated on the same records of
held-out articles: full sentences, 15 % masks. With --data, which has glue/ and
conll2003/, it is fine-tuned, too, as pretraining_pays.py does it.
--sequence_format and --masked_lm_prob replace the recipe's, also where a row
changes another setting; with --rows leave out rows that would then repeat the
recipe. What is in output_dir already is not run again. Prints Markdown.

Equal time compares settings only on a machine that does nothing else. On
another one give --budget=--num_train_steps=15000, or --train_tokens where
batches differ. On a CPU without AVX-512's or AMX's bfloat16, float32 takes less
time than the recipe's bfloat16.
"""

import argparse
import dataclasses
import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept_runs import ROOT, KeptRuns, results
from pretraining_pays import data_flags, fine_tuned

LENGTH = (64, 20)  # tokens and predictions of a record
TASKS = ("CoNLL", "STS-B", "topic", "which_sport", "CoLA")
TINY = {
    "vocab_size": 8000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.06,
    "max_position_embeddings": LENGTH[0],
    "type_vocab_size": 2,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What differs from the recipe."""

    flags: tuple[str, ...] = ()
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sequence_format: str | None = None  # None: that of all rows
    masks: str = "dynamic"  # or fixed, or fixed and packed


NO_NSP = ("--nonext_sentence_prediction",)
ROWS = {
    "the recipe": Row(),
    "initialiser 0.02": Row(config={"initializer_range": 0.02}),
    "initialiser 0.1": Row(config={"initializer_range": 0.1}),
    "warm-up of 150 steps": Row(("--num_warmup_steps=150",)),
    "warm-up of 150 steps, bias correction": Row(
        ("--num_warmup_steps=150", "--bias_correction")
    ),
    "bias correction": Row(("--bias_correction",)),
    "rate 5e-4": Row(("--learning_rate=5e-4",)),
    "rate 4e-3": Row(("--learning_rate=4e-3",)),
    "beta2 0.98": Row(("--adam_beta_2=0.98",)),
    "cosine": Row(("--learning_rate_schedule=cosine",)),
    "wsd": Row(("--learning_rate_schedule=wsd",)),
    "batches of 16": Row(("--train_batch_size=16",)),
    "batches of 256": Row(("--train_batch_size=256",)),
    "batches that grow from 16 to 64": Row(
        ("--num_accumulation_steps=4", "--batch_ramp_steps=1000")
    ),
    "ModernBERT's layers": Row(
        config={
            "family": "modernbert",
            "type_vocab_size": 0,
            "intermediate_size": 341,  # three matrices, not two
            "layer_norm_eps": 1e-5,
            "global_attn_every_n_layers": 1,
        }
    ),
    "float32": Row(("--precision=float32",)),
    "dropout 0.1": Row(
        config={
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        }
    ),
    "15 % masks": Row(("--masked_lm_prob=0.15",)),
    "30 % masks": Row(("--masked_lm_prob=0.3",)),
    "full sentences": Row(sequence_format="full_sentences"),
    "one document a record": Row(sequence_format="doc_sentences"),
    "one document a record, fixed masks": Row(
        sequence_format="doc_sentences", masks="fixed"
    ),
    "one document a record, fixed masks, packed": Row(
        sequence_format="doc_sentences", masks="packed"
    ),
    "two segments": Row(NO_NSP, sequence_format="segment_pair"),
    "two segments, next sentences": Row(sequence_format="segment_pair"),
}


class Bench(KeptRuns):
    """Records and models, each made once."""

    def __init__(
        self,
        output_dir: str,
        wiki: Path,
        precision: str,
        sequence_format: str,
        masked_lm_prob: float,
    ):
        super().__init__(output_dir)
        self.precision = precision
        self.sequence_format = sequence_format
        self.masked_lm_prob = masked_lm_prob
        self.text = wiki / "general"
        self.vocab_file = self.folder / "vocab.txt"
        self.run(
            self.vocab_file,
            "build_vocab.py",
            f"--input_file={self.text / 'train.txt'}",
            f"--output_file={self.vocab_file}",
            f"--vocab_size={TINY['vocab_size']}",
        )
        self.held_out = self.records(
            "held_out", Row(sequence_format="full_sentences")
        )

    def records(self, part: str, row: Row) -> Path:
        length, predictions = LENGTH
        lengths = (
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={predictions}",
        )
        form = row.sequence_format or self.sequence_format
        is_dynamic = row.masks == "dynamic"
        kind = form if is_dynamic else f"{form}.fixed"
        made = self.folder / f"{part}.{kind}.tfrecord"
        # each pass over the text has other random pairs, and other fixed masks
        is_once = is_dynamic and form != "segment_pair"
        self.run(
            made,
            "create_pretraining_data.py",
            f"--input_file={self.text / part}.txt",
            f"--output_file={made}",
            f"--vocab_file={self.vocab_file}",
            "--input_format=paragraphs",
            f"--dynamic_masking={is_dynamic}",
            f"--dupe_factor={1 if is_once else 4}",
            f"--sequence_format={form}",
            *lengths,
        )
        if row.masks != "packed":
            return made
        packed = made.with_suffix(".packed.tfrecord")
        self.run(
            packed,
            "pack_records.py",
            f"--input_file={made}",
            f"--output_file={packed}",
            *lengths,
        )
        return packed

    def pretrained(self, name: str, seed: int) -> Path:
        """The model's folder."""
        return self.folder / re.sub(r"\W+", "_", f"{name} {seed}")

    def row(self, name: str, seed: int, budget: str) -> dict[str, float]:
        """The number of steps, and scores on held-out text.

        Args:
            budget: the flag that says how long to train.
        """
        row, out = ROWS[name], self.pretrained(name, seed)
        config = Path(f"{out}.json")
        config.write_text(json.dumps(TINY | dict(row.config), indent=2) + "\n")
        records = self.records("train", row)
        common = (
            f"--flagfile={ROOT / 'recipes' / 'tiny_on_a_laptop.flags'}",
            f"--bert_config_file={config}",
            f"--vocab_file={self.vocab_file}",
            f"--precision={self.precision}",
        )
        self.run(
            out / "bert_model.ckpt.index",
            "run_pretraining.py",
            *common,
            "--do_train",
            f"--input_file={records}",
            f"--output_dir={out}",
            budget,
            f"--seed={seed}",
            f"--masked_lm_prob={self.masked_lm_prob}",
            *row.flags,
        )
        scored = Path(f"{out}_held_out")
        self.run(
            scored / "eval_results.txt",
            "run_pretraining.py",
            *common,
            *NO_NSP,
            "--do_eval",
            f"--input_file={self.held_out}",
            f"--init_checkpoint={out}",
            f"--output_dir={scored}",
            "--max_eval_steps=40",
        )
        log = (out / "train_log.jsonl").read_text().splitlines()
        return results(scored) | {"steps": json.loads(log[-1])["step"]}

    def task_score(self, task: str, name: str, seed: int, data: Path) -> float:
        model = self.pretrained(name, seed)
        return fine_tuned(
            self,
            task,
            model.name,
            seed,
            *data_flags(task, data, self.text.parent),
            f"--init_checkpoint={model}",
            f"--max_seq_length={LENGTH[0]}",
            "--learning_rate=3e-4",
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wiki", type=Path, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--data", type=Path, help="else no task is learnt")
    parser.add_argument("--budget", default="--train_hours=1")
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--sequence_format", default="segment_pair")
    parser.add_argument("--masked_lm_prob", type=float, default=0.3)
    args = parser.parse_args()
    bench = Bench(
        args.output_dir,
        args.wiki,
        args.precision,
        args.sequence_format,
        args.masked_lm_prob,
    )
    tasks = TASKS if args.data else ()
    columns = [
        "changed alone",
        "steps",
        "masked accuracy, %",
        "by seed",
        "loss",
    ]
    columns += [f"{x}, by seed" for x in tasks]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name in args.rows:
        runs = [bench.row(name, seed, args.budget) for seed in args.seeds]
        accuracy = [100 * run["masked_lm_accuracy"] for run in runs]
        by_seed = ", ".join(f"{x:.1f}" for x in accuracy)
        loss = statistics.median(run["masked_lm_loss"] for run in runs)
        steps = statistics.median(run["steps"] for run in runs)
        cells = [name, f"{steps:,.0f}", f"{statistics.median(accuracy):.1f}"]
        cells += [by_seed, f"{loss:.3f}"]
        for task in tasks:
            scores = (
                bench.task_score(task, name, seed, args.data)
                for seed in args.seeds
            )
            cells.append(", ".join(f"{x:.1f}" for x in scores))
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""Does drawing masks while records are read keep up with training?

    python create_pretraining_data.py --dynamic_masking --input_file=text.txt \\
        --vocab_file=vocab.txt --output_file=/tmp/unmasked.tfrecord
    python benchmarks/masking_pipeline.py --vocab_file=vocab.txt \\
        --input_file=/tmp/unmasked.tfrecord

Sequences of 128 a second, on all cores: the pipeline alone, and what a
BERT-base training step in bfloat16 at batch size 8 consumes, in turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.input_pipeline import RecordBatches
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.record_schema import unmasked_features
from bert_keras.data.special_tokens import BERT
from bert_keras.data.tokenization import load_vocab

ROOT = Path(__file__).parent.parent
LENGTH, BATCH_SIZE = 128, 8
NUM_BATCHES, NUM_STEPS = 2000, 8
BERT_BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}


def pipeline_rate(flags: argparse.Namespace, whole_words: bool) -> float:
    vocab = load_vocab(flags.vocab_file)
    config = MaskConfig(do_whole_word_mask=whole_words)
    batches = RecordBatches(
        [flags.input_file],
        unmasked_features(LENGTH),
        BATCH_SIZE,
        seed=1,
        vocab_size=len(vocab),
        masker=BatchMasker(
            read_masking_vocabulary(vocab, BERT), config, seed=1
        ),
    )
    batches.batch(0)
    start = time.perf_counter()
    for step in range(1, NUM_BATCHES + 1):
        batches.batch(step)
    return NUM_BATCHES * BATCH_SIZE / (time.perf_counter() - start)


def training_rate(flags: argparse.Namespace) -> float:
    """Median of all steps but the first, which is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "bert_config.json")
        config.write_text(json.dumps(BERT_BASE))
        subprocess.run(
            [
                *(sys.executable, "run_pretraining.py", "--do_train"),
                f"--input_file={flags.input_file}",
                f"--vocab_file={flags.vocab_file}",
                f"--bert_config_file={config}",
                f"--output_dir={folder}/run",
                f"--max_seq_length={LENGTH}",
                f"--train_batch_size={BATCH_SIZE}",
                f"--num_train_steps={NUM_STEPS}",
                *("--num_warmup_steps=1", "--iterations_per_loop=1"),
                "--precision=mixed_bfloat16",
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        log = Path(folder, "run", "train_log.jsonl").read_text().splitlines()
    rates = [json.loads(line)["tokens_per_second"] for line in log[1:]]
    return statistics.median(rates) / LENGTH


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    print("| pipeline | whole words | training | ratio | whole words |")
    print("|---|---|---|---|---|")
    ratios = []
    for _ in range(flags.num_pairs):
        pieces, words = (pipeline_rate(flags, wwm) for wwm in (False, True))
        step = training_rate(flags)
        ratios.append((pieces / step, words / step))
        print(
            f"| {pieces:,.0f} | {words:,.0f} | {step:.2f} "
            f"| {pieces / step:,.0f} | {words / step:,.0f} |",
            flush=True,
        )
    medians = map(statistics.median, zip(*ratios, strict=True))
    print("median ratios:", ", ".join(f"{ratio:,.0f}" for ratio in medians))


if __name__ == "__main__":
    main()

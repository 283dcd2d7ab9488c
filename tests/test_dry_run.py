"""Tests of --dry_run: the commands in forks, as it runs no step."""

import re
from pathlib import Path

from conftest import NUM_PREDICTIONS, SEQ_LENGTH, files_in, forked

NAMES = ["parameters", "data", "steps", "memory", "operations"]


def table(output: str) -> dict[str, str]:
    """The table of a dry run's output, by name."""
    _, text = output.split("dry run: ")
    return dict(
        re.split(" {2,}", line.strip()) for line in text.splitlines()[1:]
    )


def pretraining(config_file: str, records: str, folder: Path) -> list[str]:
    return [
        "run_pretraining.py",
        "--do_train",
        f"--input_file={records}",
        f"--bert_config_file={config_file}",
        f"--output_dir={folder}/out",
        f"--max_seq_length={SEQ_LENGTH}",
        f"--max_predictions_per_seq={NUM_PREDICTIONS}",
        "--train_batch_size=6",
        "--num_train_steps=47",
        "--num_warmup_steps=1",
        "--dry_run",
    ]


def test_pretraining_from_nothing(
    config_file: str, tiny_records: str, tmp_path: Path
) -> None:
    args = pretraining(config_file, tiny_records, tmp_path)
    entries = table(forked(*args, "--num_accumulation_steps=2"))
    assert list(entries) == NAMES
    # embeddings (101 + 2 + 61) * 40 + 80; each layer 11,053; pooler 1,640;
    # masked language model 1,821; next sentence 82
    assert entries["parameters"].startswith("43,342, of which 43,342 ")
    assert entries["data"] == "141 records in 3 files"
    assert entries["steps"] == "47 of 6 rows, 2.00 epochs; 0 are done"
    assert "activations of 3 x 29" in entries["memory"]
    assert files_in(tmp_path) == {}

"""One model and one batch for every side of steps.py: random, from one seed.

All vectors are random too, unlike those of a new model, so that a bias or a
LayerNorm that a peer has in the wrong place shows.

Shapes: B rows, S positions, P masked predictions.
"""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.cli import command

from bert_keras.modeling.config import BertConfig

ROOT = Path(__file__).parent.parent
VOCAB_SIZE = 30522
NUM_PREDICTIONS = 20  # P
NOISE = 0.02  # standard deviation of what is added to every weight
NUM_SPECIAL = 1000  # ids below are not used


def config_of(size: str) -> BertConfig:
    """Of a released size, or of 6x384, which MiniLM's sentence models have."""
    if size != "6x384":
        return BertConfig.of_size(size, VOCAB_SIZE)
    return dataclasses.replace(
        BertConfig.of_size("base", VOCAB_SIZE),
        num_hidden_layers=6,
        hidden_size=384,
        intermediate_size=1536,
    )


def make_model(folder: Path, config: BertConfig) -> tuple[Path, Path]:
    """Google's folder and Hugging Face's, made if they are not there."""
    google, hugging_face = folder / "google", folder / "hugging_face"
    if not hugging_face.exists():
        _write_google(google, config)
        subprocess.run(
            [
                *(sys.executable, "convert_checkpoint.py"),
                f"--init_checkpoint={google}",
                f"--output_dir={hugging_face}",
            ],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return google, hugging_face


def _write_google(folder: Path, config: BertConfig) -> None:
    command.import_tensorflow()
    import keras

    from bert_keras.modeling.checkpoint import save_model_folder
    from bert_keras.tasks.pretraining.model import Pretraining

    keras.utils.set_random_seed(0)
    model = Pretraining(config)
    rng = np.random.default_rng(0)
    for variable in model.variables:
        noise = NOISE * rng.standard_normal(variable.shape, np.float32)
        variable.assign(variable.numpy() + noise)
    folder.mkdir(parents=True, exist_ok=True)
    save_model_folder(str(folder), config, model.mappings(), None)


def make_batch(path: Path, num_rows: int, length: int) -> None:
    """Writes the features of a pre-training record, each [B, ...].

    Rows are pairs of half the length each; the last row ends in padding, so
    that nobody's mask is left out.
    """
    rng = np.random.default_rng(0)
    lengths = np.full(num_rows, length)
    lengths[-1] = length * 3 // 4
    positions = np.arange(length)
    mask = positions < lengths[:, None]  # [B, S]
    ids = rng.integers(NUM_SPECIAL, VOCAB_SIZE, (num_rows, length))
    predicted = [
        np.sort(1 + rng.permutation(end - 1)[:NUM_PREDICTIONS])
        for end in lengths
    ]
    shape = num_rows, NUM_PREDICTIONS  # [B, P]
    batch = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": (positions >= length // 2) * mask,
        "masked_lm_positions": np.stack(predicted),
        "masked_lm_ids": rng.integers(NUM_SPECIAL, VOCAB_SIZE, shape),
        "next_sentence_labels": rng.integers(0, 2, (num_rows, 1)),
    }
    np.savez(
        path,
        allow_pickle=False,
        masked_lm_weights=np.ones(shape, np.float32),
        **{name: value.astype(np.int32) for name, value in batch.items()},
    )

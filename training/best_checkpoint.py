"""The best model that a run has seen, where it is evaluated on the way.

While it is trained, output_dir/best/step-7 is that model's folder, and
best/best.json says what it reached; in the end output_dir has both.
"""

import json
import os
from collections.abc import Callable

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.files import remove, write_json

BEST = "best"  # folder under output_dir
METRICS = "best.json"  # step and metrics


class BestCheckpoint:
    """Of one output_dir."""

    def __init__(self, output_dir: str):
        self.parent = os.path.join(output_dir, BEST)
        self.seen = os.path.join(self.parent, METRICS)  # up to now
        self.final = os.path.join(output_dir, METRICS)  # of output_dir's model

    def keep(
        self, step: int, metrics: dict[str, float], save: Callable[[str], None]
    ) -> None:
        """Stores a model by `save`, which is given the folder; the one before
        goes when this one is whole."""
        folder = self._folder(step)
        tf.io.gfile.makedirs(folder)
        save(folder)
        write_json(self.seen, {"step": step, **metrics})
        for name in tf.io.gfile.listdir(self.parent):
            name = name.rstrip("/")
            if name not in (METRICS, os.path.basename(folder)):
                remove(os.path.join(self.parent, name))

    def find(self) -> tuple[str, int]:
        """The folder of the best one up to now, and its step."""
        step = _read_step(self.seen)
        return self._folder(step), step

    def finish(self) -> None:
        """output_dir's model is now the best one."""
        tf.io.gfile.copy(self.seen, self.final, overwrite=True)

    def adopt_model(self, step: int, metrics: dict[str, float]) -> None:
        """It is another run's best one."""
        write_json(self.final, {"step": step, **metrics})

    def forget(self) -> None:
        """It is none any more."""
        remove(self.final)

    def final_step(self) -> int | None:
        """None: output_dir's model is not known to be a best one."""
        if not tf.io.gfile.exists(self.final):
            return None
        return _read_step(self.final)

    def _folder(self, step: int) -> str:
        return os.path.join(self.parent, f"step-{step}")


def _read_step(path: str) -> int:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return int(json.loads(file.read())["step"])
    except (
        ValueError,
        TypeError,
        KeyError,
        tf.errors.NotFoundError,
    ) as error:
        raise InputError(
            f"{path}, which says what the best model is, is missing or "
            "damaged; give another `output_dir`, or the model's folder as "
            "`init_checkpoint`"
        ) from error

"""The files of scores and predictions in a folder, and which model they are of.

results.json beside them says so. When the folder gets another model, they are
moved to earlier_results.
"""

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.files import content, write_json, write_whole

RESULTS = "results.json"
EARLIER = "earlier_results"  # folder
# What earlier versions wrote without a results.json.
NAMES = (
    "eval_results.txt", "eval_results_mismatched.txt", "eval_results_test.txt",
    "test_results.tsv", "test_results_mismatched.tsv", "test_predictions.txt",
    "predictions.json", "nbest_predictions.json", "null_odds.json",
    "seeds.json",
)  # fmt: skip


class Results:
    """The results in one output_dir; for the host that writes."""

    def __init__(self, output_dir: str):
        self.folder = output_dir

    def write(
        self, name: str, text: str, weights: str, step: int, data: str
    ) -> str:
        """Writes a file of results; returns its path.

        Args:
            weights: identifies the model.
            data: what the results are of.
        """
        if self._noted().get("weights", weights) != weights:
            self.put_away()
        path = os.path.join(self.folder, name)
        write_whole(path, text.encode())
        results = {**self._noted().get("results", {}), name: data}
        write_json(
            os.path.join(self.folder, RESULTS),
            {"weights": weights, "step": step, "results": results},
        )
        return path

    def put_away(self, logs: Sequence[str] = ()) -> None:
        """Moves the results of a model that is replaced.

        Args:
            logs: log files to move with them.
        """
        noted = self._noted().get("results", {})
        if self._move({*NAMES, *noted, RESULTS, *logs}):
            print(
                "results of the previous model were moved to "
                + os.path.join(self.folder, EARLIER)
            )

    def drop(self, names: Iterable[str]) -> None:
        """Moves results that a new set of predictions does not have."""
        noted = self._noted()
        moved = self._move(names)
        if moved and noted:
            kept = {k: x for k, x in noted["results"].items() if k not in moved}
            path = os.path.join(self.folder, RESULTS)
            write_json(path, {**noted, "results": kept})

    def _move(self, names: Iterable[str]) -> list[str]:
        """Moves files to earlier_results; returns the names of those found."""
        found = [
            name
            for name in sorted(set(names))
            if name == os.path.basename(name)
            and tf.io.gfile.exists(os.path.join(self.folder, name))
        ]
        if not found:
            return []
        earlier = os.path.join(self.folder, EARLIER)
        tf.io.gfile.makedirs(earlier)
        for name in found:
            tf.io.gfile.rename(
                os.path.join(self.folder, name),
                os.path.join(earlier, name),
                overwrite=True,
            )
        return found

    def _noted(self) -> dict[str, Any]:
        """results.json; empty where it is absent or damaged."""
        try:
            text = content(os.path.join(self.folder, RESULTS))
            noted = json.loads(text or b"{}")
            names = dict(noted.get("results", {}))
            return {
                **noted,
                "results": {os.path.basename(n): names[n] for n in names},
            }
        except (ValueError, TypeError, AttributeError):
            return {}

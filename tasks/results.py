"""The files of scores and predictions in a folder, and which model they are of.

results.json beside them says so. When the folder gets another model, they are
moved to earlier_results; where that has files of these names, to
earlier_results-2, and so on. So are files of these names that it does not name:
they are somebody's own.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.files import (
    content,
    is_dir,
    parse_json,
    write_json,
    write_whole,
)

RESULTS = "results.json"
EARLIER = "earlier_results"  # folder
SEEDS = "seeds.json"  # what each of several seeds reached
# What earlier versions, without a results.json, may have written.
NAMES = (
    "eval_results.txt", "eval_results_mismatched.txt", "eval_results_test.txt",
    "test_results.tsv", "test_results_mismatched.tsv", "test_predictions.txt",
    "predictions.json", "nbest_predictions.json", "null_odds.json",
    SEEDS,
)  # fmt: skip
# All that are written.
WRITTEN = frozenset({
    *NAMES, "eval_classes.txt", "eval_classes_mismatched.txt",
    "test_labels.tsv", "test_labels_mismatched.tsv", "test_predictions.jsonl",
    # GLUE's submissions
    "AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "MRPC.tsv", "QNLI.tsv",
    "QQP.tsv", "RTE.tsv", "SST-2.tsv", "STS-B.tsv", "WNLI.tsv",
})  # fmt: skip
# Of which GLUE's own data has one in a `data_dir`, too.
ALSO_READ = ("AX.tsv",)


class Results:
    """The results in one output_dir; for the host that writes."""

    def __init__(self, output_dir: str):
        self.folder = output_dir
        self.file = os.path.join(output_dir, RESULTS)

    def write(
        self, name: str, text: str, weights: str, step: int, data: str
    ) -> str:
        """Writes a file of results; returns its path.

        Args:
            weights: identifies the model.
            data: what the results are of.
        """
        assert name in WRITTEN, name
        noted = self._noted()
        if noted.get("weights", weights) != weights:
            self.put_away()
        if name not in noted.get("results", {}):  # it is somebody's own
            self.move([name] if "weights" in noted else [name, RESULTS])
        path = os.path.join(self.folder, name)
        write_whole(path, text.encode())
        results = {**self._noted().get("results", {}), name: data}
        noted = {"weights": weights, "step": step, "results": results}
        write_json(self.file, noted)
        return path

    def put_away(self, others: Sequence[str] = ()) -> None:
        """Moves the results of a model that is replaced.

        Args:
            others: files to move with them.
        """
        noted = self._noted().get("results", {})
        self.move({*NAMES, *noted, RESULTS, *others})

    def drop(self, names: Iterable[str]) -> None:
        """Moves results that a new set of predictions does not have."""
        noted = self._noted()
        moved = self.move(names)
        if moved and noted:
            kept = {k: x for k, x in noted["results"].items() if k not in moved}
            write_json(self.file, {**noted, "results": kept})

    def move(self, names: Iterable[str]) -> list[str]:
        """Moves files out of the way of new ones; returns the names of those
        found."""
        found = [
            name
            for name in sorted(set(names))
            if tf.io.gfile.exists(os.path.join(self.folder, name))
            and not is_dir(os.path.join(self.folder, name))
        ]
        if not found:
            return found
        for number in itertools.count(1):
            suffix = f"-{number}" if number > 1 else ""
            earlier = os.path.join(self.folder, EARLIER + suffix)
            paths = [os.path.join(earlier, name) for name in found]
            if not any(map(tf.io.gfile.exists, paths)):
                break
        tf.io.gfile.makedirs(earlier)
        for name, path in zip(found, paths, strict=True):
            tf.io.gfile.rename(os.path.join(self.folder, name), path)
        print(f"moved to {earlier}: {', '.join(found)}")
        return found

    def _noted(self) -> dict[str, Any]:
        """results.json, which may name anything, with the results that it
        names; empty where it is absent or damaged."""
        try:
            noted = parse_json(content(self.file) or b"{}")
            results = dict(noted.get("results", {}))
            results = {n: x for n, x in results.items() if n in WRITTEN}
            return {**noted, "results": results}
        except (ValueError, TypeError, AttributeError):
            return {}

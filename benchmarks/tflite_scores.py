"""What .tflite files of a fine-tuned model take, and what they keep.

    python benchmarks/tflite_scores.py --model_dir=/tmp/mrpc \\
        --task_name=MRPC --data_dir=$GLUE/MRPC --work_dir=/tmp/tflite

The dev set is scored by the model itself and by the files that
export_tflite.py writes of it, run by LiteRT on one core and on two; sizes,
milliseconds a row (median of all, files in turns) and scores are printed.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

WEIGHTS = ("float32", "float16", "int8")


def export(flags: argparse.Namespace, weights: str) -> Path:
    path = flags.work_dir / f"{weights}.tflite"
    command = [
        sys.executable,
        str(ROOT / "export_tflite.py"),
        f"--model_dir={flags.model_dir}",
        f"--weights={weights}",
        f"--output_file={path}",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


class LiteModel:
    """A file that answers one row at a time, and how long each took."""

    def __init__(self, path: Path, num_threads: int):
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(path), num_threads=num_threads)
        self.run = self.interpreter.get_signature_runner("serving_default")
        self.seconds: list[float] = []

    def __call__(self, row: dict[str, np.ndarray]) -> np.ndarray:
        began = time.perf_counter()
        answer = self.run(**row)
        self.seconds.append(time.perf_counter() - began)
        return answer["probabilities"][0]

    def milliseconds(self) -> float:
        return 1000 * statistics.median(self.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--task_name", default="MRPC")
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--work_dir", type=Path, required=True)
    flags = parser.parse_args()
    flags.work_dir.mkdir(parents=True, exist_ok=True)

    from bert_keras.cli import command

    command.import_tensorflow()
    from bert_keras.data.input_features import pad
    from bert_keras.data.tokenizer_folder import open_tokenizer
    from bert_keras.tasks import export as serving
    from bert_keras.tasks.classification.data import encode_examples
    from bert_keras.tasks.classification.glue import find_task
    from bert_keras.tasks.classification.model import SingleLabel
    from bert_keras.training.inference import Predictor

    settings, config, _ = serving.open_folder(flags.model_dir)
    opened = open_tokenizer(flags.model_dir)
    assert settings is not None and opened is not None
    task = find_task(flags.task_name)
    target = SingleLabel(settings.labels)
    examples = task.read(flags.data_dir, task.splits("dev")[0])
    labels = np.array([target.encode(e.label) for e in examples])
    tokenizer = opened.load()
    length = settings.max_seq_length
    rows = [
        pad(encoded, length, 1)
        for encoded in encode_examples(examples, tokenizer, length)
    ]
    model = serving.load_model(flags.model_dir, config, settings)
    logits = Predictor(model.outputs_by_name)(
        {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    )["logits"]
    expected = target.scores(logits)

    paths = {weights: export(flags, weights) for weights in WEIGHTS}
    models = {
        (weights, threads): LiteModel(path, threads)
        for weights, path in paths.items()
        for threads in (1, 2)
    }
    answers: dict[tuple[str, int], list[np.ndarray]] = {k: [] for k in models}
    for row in rows:
        for key, lite in models.items():
            answers[key].append(lite(row))

    def scores(probabilities: np.ndarray) -> str:
        values = target.metrics(probabilities, labels)
        return " | ".join(f"{100 * values[name]:.1f}" for name in task.metrics)

    print(
        f"{len(examples)} rows of {length} pieces\n\n"
        f"| weights | bytes | of float32 | {' | '.join(task.metrics)} | other "
        "labels | largest difference | ms, 1 core | ms, 2 cores |"
    )
    print("|" + "---|" * (7 + len(task.metrics)))
    print(f"| the model here | | | {scores(expected)} | | | | |")
    whole = paths["float32"].stat().st_size
    for weights, path in paths.items():
        found = np.array(answers[weights, 1])
        size = path.stat().st_size
        others = int((found.argmax(-1) != expected.argmax(-1)).sum())
        one, two = (models[weights, n].milliseconds() for n in (1, 2))
        print(
            f"| {weights} | {size:,} | {size / whole:.1%} | {scores(found)} | "
            f"{others} | {np.abs(found - expected).max():.1e} | {one:.1f} | "
            f"{two:.1f} |"
        )


if __name__ == "__main__":
    main()

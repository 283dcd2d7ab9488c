"""A GLUE task fine-tuned with transformers: one JSON line of what it scores.

For glue_scores.py, in an environment that has torch, transformers and scipy.
The recipe is the paper's (appendix A.3), as in google-research/bert: AdamW with
weight decay 0.01 but for biases and LayerNorm, gradients clipped at norm 1, a
linear warm-up over a tenth of the steps, then linear decay. Batches are padded
to their longest row; attention does not see the padding. --group_by_length puts
rows of similar length together, as transformers' Trainer does by that name.
"""

import argparse
import csv
import json
import os
import time

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from torch.nn.functional import cross_entropy, mse_loss
from transformers import AutoTokenizer, BertForSequenceClassification

# columns of: label, first text, second text; whether the file has a header
COLUMNS = {
    "CoLA": (1, 3, None, False),
    "MRPC": (0, 3, 4, True),
    "RTE": (3, 1, 2, True),
    "STS-B": (9, 7, 8, True),
}
SIMILAR_BATCHES = 50  # from so many batches' rows similar ones are put together
Example = tuple[float, str, str | None]


def read(path: str, task: str) -> list[Example]:
    label, first, second, has_header = COLUMNS[task]
    with open(path, encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    examples = []
    for row in rows[has_header:]:
        if task == "STS-B" and len(row) <= label:
            continue
        value = {"entailment": 1.0, "not_entailment": 0.0}.get(row[label])
        number = float(row[label]) if value is None else value
        text_b = None if second is None else row[second]
        examples.append((number, row[first], text_b))
    return examples


def length(example: Example) -> int:
    """In characters."""
    _, first, second = example
    return len(first) + len(second or "")


def draw_batches(
    lengths: np.ndarray, size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """An epoch's rows, `size` of similar length a batch; what is left over of
    it is another's. Lengths that are all the same leave the order to chance."""
    order = rng.permutation(len(lengths))
    group = SIMILAR_BATCHES * size
    groups = [
        rows[np.argsort(lengths[rows], kind="stable")]
        for rows in np.split(order, range(group, len(order), group))
    ]
    by_length = np.concatenate(groups)
    last = len(by_length) // size * size
    batches = list(by_length[:last].reshape(-1, size))
    rng.shuffle(batches)
    return batches


class Run:
    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.is_regression = arguments.task == "STS-B"
        self.tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        self.model = BertForSequenceClassification.from_pretrained(
            arguments.model, num_labels=1 if self.is_regression else 2
        )

    def logits(self, examples: list[Example]) -> torch.Tensor:
        firsts = [first for _, first, _ in examples]
        seconds = [second for _, _, second in examples]
        batch = self.tokenizer(
            firsts,
            None if seconds[0] is None else seconds,
            truncation=True,
            max_length=self.arguments.max_seq_length,
            padding=True,
            return_tensors="pt",
        )
        is_bf16 = self.arguments.precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            return self.model(**batch).logits.float()

    def train(self, examples: list[Example]) -> int:
        size = self.arguments.batch_size
        steps = int(len(examples) / size * self.arguments.epochs)
        optimizer = make_optimizer(self.model, self.arguments.learning_rate)
        schedule = make_schedule(optimizer, steps)
        self.model.train()
        lengths = np.zeros(len(examples))
        if self.arguments.group_by_length:
            lengths = np.array([length(example) for example in examples])
        rng = np.random.default_rng(self.arguments.seed)
        batches: list[np.ndarray] = []
        for _ in range(steps):
            batches = batches or draw_batches(lengths, size, rng)
            batch = [examples[i] for i in batches.pop()]
            labels = torch.tensor([label for label, _, _ in batch])
            logits = self.logits(batch)
            loss = (
                mse_loss(logits[:, 0], labels)
                if self.is_regression
                else cross_entropy(logits, labels.long())
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        return steps

    def evaluate(self, examples: list[Example]) -> dict[str, float]:
        self.model.eval()
        examples = sorted(examples, key=length)
        parts = []
        with torch.inference_mode():
            for i in range(0, len(examples), 64):
                parts.append(self.logits(examples[i : i + 64]).numpy())
        logits = np.concatenate(parts)
        labels = np.array([label for label, _, _ in examples])
        if self.is_regression:
            return {
                "pearson": float(pearsonr(logits[:, 0], labels)[0]),
                "spearman": float(spearmanr(logits[:, 0], labels)[0]),
            }
        return classes_scores(logits.argmax(-1), labels.astype(int))


def make_optimizer(
    model: torch.nn.Module, learning_rate: float
) -> torch.optim.Optimizer:
    named = list(model.named_parameters())
    free = [p for n, p in named if "LayerNorm" in n or n.endswith("bias")]
    others = {id(p) for p in free}
    decayed = [p for _, p in named if id(p) not in others]
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": 0.01},
            {"params": free, "weight_decay": 0.0},
        ],
        lr=learning_rate,
        eps=1e-6,
        fused=True,
    )


def make_schedule(
    optimizer: torch.optim.Optimizer, steps: int, bias_correction: bool = True
) -> torch.optim.lr_scheduler.LRScheduler:
    """Without bias correction the rate undoes torch's (but for epsilon, and
    in the first steps it multiplies the weight decay as well)."""
    warmup = int(0.1 * steps)

    def rate(step: int) -> float:
        rate = step / warmup if step < warmup else max(0.0, 1 - step / steps)
        if not bias_correction:
            rate *= (1 - 0.9 ** (step + 1)) / (1 - 0.999 ** (step + 1)) ** 0.5
        return rate

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def classes_scores(
    predicted: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    tp, fp, fn, tn = (
        float(np.sum((predicted == p) & (labels == y)))
        for p, y in ((1, 1), (1, 0), (0, 1), (0, 0))
    )
    root = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return {
        "accuracy": (tp + tn) / len(labels),
        "f1": 2 * tp / max(1.0, 2 * tp + fp + fn),
        "matthews": (tp * tn - fp * fn) / root if root else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=COLUMNS, required=True)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--epochs", type=float, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--max_seq_length", type=int, required=True)
    parser.add_argument("--group_by_length", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(arguments.seed)
    run = Run(arguments)
    train, dev = (
        read(os.path.join(arguments.data_dir, f"{name}.tsv"), arguments.task)
        for name in ("train", "dev")
    )
    start = time.perf_counter()
    steps = run.train(train)
    seconds = time.perf_counter() - start
    scores = run.evaluate(dev)
    print(json.dumps({"steps": steps, "train_s": round(seconds, 1), **scores}))


if __name__ == "__main__":
    main()

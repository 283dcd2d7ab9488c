"""SQuAD fine-tuned with transformers on given features: the logits of dev.

For squad_scores.py, in an environment that has torch and transformers. The
features are an .npz file's: train_* and dev_* arrays [N, S], and positions [N].
Batches are of rows of similar length, as by transformers' group_by_length, and
cut to the longest of them; attention does not see what is cut off.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
from transformers import BertForQuestionAnswering
from transformers_glue import draw_batches, make_optimizer, make_schedule

INPUTS = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


class Run:
    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.arrays = np.load(arguments.features)
        self.model = BertForQuestionAnswering.from_pretrained(arguments.model)

    def forward(
        self, part: str, rows: np.ndarray
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, S] of the starts and of the ends."""
        masks = self.arrays[f"{part}_input_mask"][rows]
        length = int(masks.sum(-1).max())
        batch = {
            name: torch.tensor(
                self.arrays[f"{part}_{ours}"][rows, :length], dtype=torch.long
            )
            for name, ours in INPUTS.items()
        }
        is_bf16 = self.arguments.precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            output = self.model(**batch)
        return output.start_logits.float(), output.end_logits.float()

    def train(self) -> None:
        steps, size = self.arguments.num_steps, self.arguments.batch_size
        optimizer = make_optimizer(self.model, self.arguments.learning_rate)
        schedule = make_schedule(
            optimizer, steps, self.arguments.bias_correction
        )
        lengths = self.arrays["train_input_mask"].sum(-1)
        batches: list[np.ndarray] = []
        rng = np.random.default_rng(self.arguments.seed)
        self.model.train()
        for step in range(steps):
            batches = batches or draw_batches(lengths, size, rng)
            loss = self._loss(batches.pop())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % 20 == 0:
                print(f"step {step}/{steps} loss {loss.item():.3f}", flush=True)

    def _loss(self, rows: np.ndarray) -> torch.Tensor:
        losses = [
            torch.nn.functional.cross_entropy(
                logits, torch.tensor(self.arrays[f"train_{name}"][rows])
            )
            for name, logits in zip(
                ("start_positions", "end_positions"),
                self.forward("train", rows),
                strict=True,
            )
        ]
        return (losses[0] + losses[1]) / 2

    def predict(self) -> dict[str, np.ndarray]:
        """Logits [N, S]; -inf where a batch was cut off."""
        self.model.eval()
        masks = self.arrays["dev_input_mask"]
        found = {
            name: np.full(masks.shape, -np.inf, np.float32)
            for name in ("start_logits", "end_logits")
        }
        by_length = np.argsort(masks.sum(-1), kind="stable")
        with torch.inference_mode():
            for i in range(0, len(masks), 32):
                rows = by_length[i : i + 32]
                for name, logits in zip(
                    found, self.forward("dev", rows), strict=True
                ):
                    found[name][rows, : logits.shape[1]] = logits.numpy()
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--features", required=True)
    parser.add_argument("--logits", required=True, help="The .npz to write.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--num_steps", type=int, required=True)
    parser.add_argument("--bias_correction", action="store_true")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(arguments.seed)
    run = Run(arguments)
    start = time.perf_counter()
    run.train()
    trained = time.perf_counter()
    logits = run.predict()
    times = {
        "train_s": trained - start,
        "predict_s": time.perf_counter() - trained,
    }
    np.savez(arguments.logits, allow_pickle=False, **logits)
    print(json.dumps({name: round(s, 1) for name, s in times.items()}))


if __name__ == "__main__":
    main()

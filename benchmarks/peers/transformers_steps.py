"""transformers under torch, for steps.py: a step, a forward pass, prediction.

Variants: eager or compiled; with "bf16 weights" the weights themselves are in
bfloat16, else they are float32 and cast under autocast. Only masked positions
are scored; with "own loss" all are, as BertForPreTraining does it. Its
optimiser is the Trainer's (fused AdamW).
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import worker
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining
from transformers_glue import make_optimizer

INPUTS = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


class Work:
    def __init__(self, job: worker.Job):
        has_bf16_weights = "bf16 weights" in job.variant
        self.casts = job.is_bfloat16 and not has_bf16_weights
        self.is_compiled = job.variant.startswith("compiled")
        self.has_own_loss = "own loss" in job.variant
        self.device = job.device
        self.model = BertForPreTraining.from_pretrained(
            job.hugging_face,
            dtype=torch.bfloat16 if has_bf16_weights else torch.float32,
        ).to(job.device)
        self.batch = {
            name: torch.tensor(value, dtype=torch.long, device=job.device)
            for name, value in job.batch.items()
        }
        self.inputs = {k: self.batch[name] for k, name in INPUTS.items()}

    def autocast(self) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device, torch.bfloat16, enabled=self.casts)

    def compiled(self, function: Callable) -> Callable:
        return torch.compile(function) if self.is_compiled else function

    def loss(self) -> torch.Tensor:
        batch, heads = self.batch, self.model.cls
        if self.has_own_loss:
            labels = torch.full_like(batch["input_ids"], -100)
            labels.scatter_(
                1, batch["masked_lm_positions"], batch["masked_lm_ids"]
            )
            return self.model(
                **self.inputs,
                labels=labels,
                next_sentence_label=batch["next_sentence_labels"],
            ).loss
        outputs = self.model.bert(**self.inputs)
        ids = batch["input_ids"]
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        masked = outputs[0][rows, batch["masked_lm_positions"]]  # [B, P, H]
        scores = heads.predictions(masked).float()
        pair = heads.seq_relationship(outputs[1]).float()
        return cross_entropy(
            scores.flatten(0, 1), batch["masked_lm_ids"].flatten()
        ) + cross_entropy(pair, batch["next_sentence_labels"][:, 0])

    def trainer(self) -> Callable[[], float]:
        self.model.train()
        optimizer = make_optimizer(self.model, worker.LEARNING_RATE)
        loss_of = self.compiled(self.loss)

        def step() -> float:
            optimizer.zero_grad()
            with self.autocast():
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(
                self.model.parameters(), worker.MAX_GRADIENT_NORM
            )
            optimizer.step()
            return loss.item()

        return step

    def encoder(self) -> Callable[[], dict[str, np.ndarray]]:
        self.model.eval()
        encode = self.compiled(self.model.bert)

        def step() -> dict[str, np.ndarray]:
            with torch.inference_mode(), self.autocast():
                sequence, pooled = encode(**self.inputs)[:2]
            return {
                "sequence": sequence.float().cpu().numpy(),
                "pooled": pooled.float().cpu().numpy(),
            }

        return step

    def predictor(self) -> Callable[[int], dict[str, np.ndarray]]:
        """Within one autocast, by which eager casts weights once."""
        forward = self.encoder()

        def predict(num_batches: int) -> dict[str, np.ndarray]:
            with torch.inference_mode(), self.autocast():
                return worker.repeat(forward, num_batches)

        return predict


def main() -> None:
    job = worker.read_job()
    torch.set_num_threads(worker.NUM_CORES)
    torch.manual_seed(0)
    work = Work(job)

    def loss() -> Any:
        work.model.eval()
        with torch.inference_mode(), work.autocast():
            return work.loss().cpu()

    worker.work(job, loss, work.trainer, work.encoder, work.predictor)


if __name__ == "__main__":
    main()

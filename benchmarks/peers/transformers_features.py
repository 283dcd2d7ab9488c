"""A vector a line with transformers: the mean of the last layer's pieces.

For commands.py, in an environment that has torch and transformers.
Lines are sorted by length, batches padded to their longest, attention does not
see the padding, and vectors are written in the order of the lines.
"""

import argparse
import os

import numpy as np
import torch
from transformers import AutoTokenizer, BertModel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--output_file", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--max_seq_length", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = BertModel.from_pretrained(
        arguments.model, add_pooling_layer=False
    ).eval()
    with open(arguments.input_file, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    # Lists of ids: padded tensors of all lines would be of the longest's width.
    ids = tokenizer(
        lines, truncation=True, max_length=arguments.max_seq_length
    )["input_ids"]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    vectors = np.empty((len(ids), model.config.hidden_size), np.float32)
    with (
        torch.inference_mode(),
        torch.autocast("cpu", torch.bfloat16, enabled=arguments.bf16),
    ):
        for start in range(0, len(order), arguments.batch_size):
            rows = order[start : start + arguments.batch_size]
            batch = tokenizer.pad(
                {"input_ids": [ids[i] for i in rows]}, return_tensors="pt"
            )
            output = model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"][:, :, None].float()
            mean = (output * mask).sum(1) / mask.sum(1)
            vectors[rows] = mean.numpy()
    np.save(arguments.output_file, vectors)


if __name__ == "__main__":
    main()

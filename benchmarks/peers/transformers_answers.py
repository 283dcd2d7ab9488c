"""Answers to SQuAD's questions with transformers: their texts.

For commands.py, in an environment that has torch and transformers. A question
with its paragraph is cut to windows that begin --doc_stride pieces after each
other, as in google-research/bert; these are sorted by length, and batches
padded to their longest. An answer is the best of the 20 best starts and ends in
each of its windows, at most 30 pieces long, and begins in the window where its
first piece sees the most around it, as in google-research/bert and unlike in
transformers' own examples. Precision bf16 is autocast, with weights in float32.
"""

import argparse
import collections
import json
import os
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, BertForQuestionAnswering

N_BEST, MAX_ANSWER_LENGTH = 20, 30


def read(path: str) -> list[tuple[str, str, str]]:
    """Ids, questions and paragraphs."""
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return [
        (asked["id"], asked["question"].lstrip(), paragraph["context"])
        for article in articles
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


def sees_most(lengths: list[int], doc_stride: int) -> list[np.ndarray]:
    """Of a paragraph's windows of so many pieces: which of their pieces have a
    wider context there than in the others."""
    begins = [doc_stride * i for i in range(len(lengths))]
    context = np.full((len(lengths), begins[-1] + lengths[-1]), -np.inf)
    for row, begin, length in zip(context, begins, lengths, strict=True):
        piece = np.arange(length)
        narrower = np.minimum(piece, piece[::-1])
        row[begin : begin + length] = narrower + 0.01 * length
    widest = context.argmax(0)
    return [
        widest[begin : begin + length] == i
        for i, (begin, length) in enumerate(zip(begins, lengths, strict=True))
    ]


def best_span(
    start: np.ndarray,
    end: np.ndarray,
    may_start: np.ndarray,
    may_end: np.ndarray,
) -> tuple[float, int, int]:
    """Its score, its first piece and its last."""
    start = np.where(may_start, start, -np.inf)
    end = np.where(may_end, end, -np.inf)
    starts = np.argsort(-start)[:N_BEST]
    ends = np.argsort(-end)[:N_BEST]
    scores = start[starts][:, None] + end[ends][None]
    length = ends[None] - starts[:, None] + 1
    fits = (length >= 1) & (length <= MAX_ANSWER_LENGTH)
    scores = np.where(fits, scores, -np.inf)
    i, j = np.unravel_index(scores.argmax(), scores.shape)
    return float(scores[i, j]), int(starts[i]), int(ends[j])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--predict_file", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--max_seq_length", type=int, required=True)
    parser.add_argument("--doc_stride", type=int, required=True)
    parser.add_argument(
        "--precision", choices=("fp32", "bf16", "bf16_weights"), required=True
    )
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = BertForQuestionAnswering.from_pretrained(arguments.model).eval()
    if arguments.precision == "bf16_weights":
        model = model.to(torch.bfloat16)
    names, questions, paragraphs = zip(
        *read(arguments.predict_file), strict=True
    )
    cut = tokenizer(list(questions), add_special_tokens=False)["input_ids"]
    of_length = collections.defaultdict(list)
    for number, pieces in enumerate(cut):
        of_length[len(pieces)].append(number)
    ids, segments, all_offsets, owners = [], [], [], []
    for length, members in of_length.items():
        room = arguments.max_seq_length - 3 - length
        windows = tokenizer(
            [questions[number] for number in members],
            [paragraphs[number] for number in members],
            truncation="only_second",
            max_length=arguments.max_seq_length,
            stride=room - arguments.doc_stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        ids += windows["input_ids"]
        segments += windows["token_type_ids"]
        all_offsets += windows["offset_mapping"]
        owners += [members[i] for i in windows["overflow_to_sample_mapping"]]
    # [row][position]: where an answer may end, and where it may start.
    may_end = [np.array(segment, bool) for segment in segments]
    windows_of = collections.defaultdict(list)
    for row, owner in enumerate(owners):
        may_end[row][-1] = False  # the second [SEP]
        windows_of[owner].append(row)
    may_start = [allowed.copy() for allowed in may_end]
    for rows in windows_of.values():
        lengths = [int(may_end[row].sum()) for row in rows]
        found = sees_most(lengths, arguments.doc_stride)
        for row, pieces in zip(rows, found, strict=True):
            may_start[row][may_end[row]] = pieces
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    best = dict.fromkeys(names, (-np.inf, ""))
    with (
        torch.inference_mode(),
        torch.autocast(
            "cpu", torch.bfloat16, enabled=arguments.precision == "bf16"
        ),
    ):
        for begin in range(0, len(order), arguments.batch_size):
            rows = order[begin : begin + arguments.batch_size]
            batch = tokenizer.pad(
                {
                    "input_ids": [ids[i] for i in rows],
                    "token_type_ids": [segments[i] for i in rows],
                },
                return_tensors="pt",
            )
            output = model(**batch)
            starts = output.start_logits.float().numpy()
            ends = output.end_logits.float().numpy()
            for row, start, end in zip(rows, starts, ends, strict=True):
                length = len(ids[row])
                score, first, last = best_span(
                    start[:length], end[:length], may_start[row], may_end[row]
                )
                name, text = names[owners[row]], paragraphs[owners[row]]
                offsets = all_offsets[row]
                if score > best[name][0]:
                    answer = text[offsets[first][0] : offsets[last][1]]
                    best[name] = score, answer
    answers = {name: answer for name, (_, answer) in best.items()}
    Path(arguments.output_dir, "predictions.json").write_text(
        json.dumps(answers)
    )


if __name__ == "__main__":
    main()

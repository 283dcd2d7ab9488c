"""CoNLL-2003 fine-tuned with transformers: one JSON line of what it scores.

For ner_scores.py, in an environment that has torch, transformers and seqeval.
The recipe is that of transformers_glue.py; labels are on the first pieces of
words, and sentences that are too long are cut (of CoNLL-2003 none of 128 pieces
but a handful).
"""

import argparse
import json
import os
import random
import time

import torch
from seqeval.metrics import f1_score
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertForTokenClassification
from transformers_glue import make_optimizer, make_schedule

NO_LABEL = -100  # torch's
Sentence = tuple[list[str], list[str]]  # words and tags


def read(path: str) -> list[Sentence]:
    sentences: list[Sentence] = []
    words, tags = [], []
    with open(path, encoding="utf-8") as file:
        for line in [*file, ""]:
            columns = line.split()
            if columns and columns[0] != "-DOCSTART-":
                words.append(columns[0])
                tags.append(columns[-1])
            elif words:
                sentences.append((words, tags))
                words, tags = [], []
    return sentences


class Run:
    def __init__(self, arguments: argparse.Namespace, labels: list[str]):
        self.arguments = arguments
        self.labels = labels
        self.tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        self.model = BertForTokenClassification.from_pretrained(
            arguments.model, num_labels=len(labels)
        )

    def run(
        self, sentences: list[Sentence]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and labels where there are any."""
        batch = self.tokenizer(
            [words for words, _ in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=self.arguments.max_seq_length,
            padding=True,
            return_tensors="pt",
        )
        labels = torch.full(batch["input_ids"].shape, NO_LABEL)
        for i, (_, tags) in enumerate(sentences):
            last = None
            for place, word in enumerate(batch.word_ids(i)):
                if word is not None and word != last:
                    labels[i, place] = self.labels.index(tags[word])
                last = word
        is_bf16 = self.arguments.precision == "bf16"
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            return self.model(**batch).logits.float(), labels

    def train(self, sentences: list[Sentence]) -> int:
        size = self.arguments.batch_size
        steps = int(len(sentences) / size * self.arguments.epochs)
        optimizer = make_optimizer(self.model, self.arguments.learning_rate)
        schedule = make_schedule(optimizer, steps)
        self.model.train()
        order: list[Sentence] = []
        for _ in range(steps):
            if len(order) < size:
                order = random.sample(sentences, len(sentences))
            batch, order = order[:size], order[size:]
            logits, labels = self.run(batch)
            loss = cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        return steps

    def evaluate(self, sentences: list[Sentence]) -> float:
        """Words that are cut off count as O."""
        self.model.eval()
        predicted = []
        with torch.inference_mode():
            for i in range(0, len(sentences), 64):
                part = sentences[i : i + 64]
                logits, labels = self.run(part)
                for (words, _), own, mask in zip(
                    part, logits.argmax(-1), labels != NO_LABEL, strict=True
                ):
                    tags = [self.labels[number] for number in own[mask]]
                    predicted.append(tags + ["O"] * (len(words) - len(tags)))
        return float(f1_score([tags for _, tags in sentences], predicted))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--epochs", type=float, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--max_seq_length", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    train, dev, test = (
        read(os.path.join(arguments.data_dir, f"{name}.txt"))
        for name in ("train", "valid", "test")
    )
    labels = sorted({tag for _, tags in train for tag in tags})
    run = Run(arguments, labels)
    start = time.perf_counter()
    steps = run.train(train)
    seconds = round(time.perf_counter() - start, 1)
    scores = {"dev": run.evaluate(dev), "test": run.evaluate(test)}
    print(json.dumps({"steps": steps, "train_s": seconds, **scores}))


if __name__ == "__main__":
    main()

"""Megabytes a second on one thread: the line tokenizer, and Hugging Face's.

    taskset -c 0 python benchmarks/tokenizer_speed.py --input_file=text.txt \\
        --vocab_file=vocab.txt

Both encode the whole file, in turns. Ours is a new one each time, so that it
also gets to know its characters each time; its ids are compared with those of
data/tokenization.py, line by line, at the end.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tokenizers import BertWordPieceTokenizer

from bert_keras.data.fast_tokenization import LineTokenizer
from bert_keras.data.tokenization import FullTokenizer

BLOCK_LINES = 4000


def encode_all(tokenizer: LineTokenizer, blocks: list[bytes]) -> int:
    return sum(len(tokenizer.encode(block).ids) for block in blocks)


def count_differences(tokenizer: LineTokenizer, blocks: list[bytes]) -> int:
    exact, different = tokenizer.tokenizer, 0
    for block in blocks:
        found, end = tokenizer.encode(block), 0
        lines = block.decode().removesuffix("\n").split("\n")
        for line, length in zip(lines, found.lengths.tolist(), strict=True):
            ids = exact.convert_tokens_to_ids(exact.tokenize(line.strip()))
            different += ids != found.ids[end : end + length].tolist()
            end += length
    return different


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines = Path(flags.input_file).read_bytes().splitlines(keepends=True)
    texts = [line.decode() for line in lines]
    blocks = [
        b"".join(lines[i : i + BLOCK_LINES])
        for i in range(0, len(lines), BLOCK_LINES)
    ]
    megabytes = sum(map(len, lines)) / 1e6
    exact = FullTokenizer(flags.vocab_file)
    encode_all(LineTokenizer(exact), blocks[:1])  # starts TensorFlow
    peer = BertWordPieceTokenizer(flags.vocab_file)
    ratios = []
    for _ in range(flags.num_pairs):
        start = time.perf_counter()
        peer.encode_batch(texts, add_special_tokens=False)
        theirs = time.perf_counter() - start
        tokenizer = LineTokenizer(exact)
        start = time.perf_counter()
        encode_all(tokenizer, blocks)
        ours = time.perf_counter() - start
        ratios.append(theirs / ours)
        print(
            f"Hugging Face {megabytes / theirs:.2f} MB/s, here "
            f"{megabytes / ours:.2f} MB/s, ratio {ratios[-1]:.1f}",
            flush=True,
        )
    print(f"median ratio: {statistics.median(ratios):.1f}")
    different = count_differences(tokenizer, blocks)
    print(f"{different} of {len(lines):,} lines differ from the exact ones")


if __name__ == "__main__":
    main()

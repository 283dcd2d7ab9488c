"""Writes what lies beside this file, with Hugging Face tokenizers.

    pip install tokenizers==0.23.3
    python tests/golden/byte_level/make_byte_level.py

A byte-level vocabulary as RoBERTa's (vocab.json, merges.txt), learnt from
golden/tiny_corpus.txt and the lines below, and expected.json: of each line the
ids and the places of its pieces.
"""

import json
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer, processors

HERE = Path(__file__).parent
VOCAB_SIZE = 420
REPEATS = 3  # of each line, so that something of it is learnt
LINES = [
    "The old captain saw the sea, and the sea saw him.",
    " It's Anna's ship; we've said they'd sail, I'll wait. IT'S 'tis 'd",
    "In 1895 she paid $1,234.56 (about 7%) for 12x34 planks.",
    "two  spaces,   three\tand a tab \t  end   ",
    "   ",
    "line\nbreaks\r\nof all\x0b\x0ckinds\x1c\x1d\x85here\u2028and\u2029there",
    "no\u00a0break \u3000 wide \u00a0x \u200b zero",
    "café cafe\u0301 Über naïve İstanbul \u01c5 \u02b0a \u0345",
    "Ο γέρος και η θάλασσα",
    "Старик и море, 2 раза",
    "老船长看见了大海。一二三 十 〇",
    "क\u094dष\u093fत\u093fज ทะเล ים بحر ١٢٣",
    "\u00bd \u00b2 \u2167 \u2460 \u0bf0 \U0001d7d8 x\u00b2y \u216bth",
    "🌊 waves 👨\u200d👩\u200d👧🏽 \u2665\ufe0f 𝒜𝒷 𠀀",
    "<s> <mask></s> </s><pad> [MASK] ##ing \u0120the",
    "\x00 \x01\x7f \ufffd \ufeff \ue000 \u00ad soft",
    "'s's 'S \u2019s ''ll '' 'r 're'ver _under_score __ a_1 1a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + "ththththe" * 9,
    "",
]  # fmt: skip


def main() -> None:
    corpus = (HERE.parent / "tiny_corpus.txt").read_text("utf-8").split("\n")
    tokenizer = ByteLevelBPETokenizer(trim_offsets=True)
    tokenizer.train_from_iterator(
        [*corpus, *LINES * REPEATS],
        VOCAB_SIZE - 1,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        show_progress=False,
    )
    tokenizer.save_model(str(HERE))
    path = HERE / "vocab.json"  # RoBERTa's has its <mask> at the end
    vocab = json.loads(path.read_text("utf-8"))
    vocab["<mask>"] = len(vocab)
    path.write_text(json.dumps(vocab) + "\n")
    # Without special tokens: what looks like one is text.
    plain = ByteLevelBPETokenizer(str(path), str(HERE / "merges.txt"))
    plain.post_processor = processors.ByteLevel(
        add_prefix_space=False, trim_offsets=True
    )
    found = [plain.encode(line) for line in LINES]
    expected = [
        {"text": line, "ids": one.ids, "offsets": one.offsets}
        for line, one in zip(LINES, found, strict=True)
    ]
    text = ",\n".join(json.dumps(one) for one in expected)
    (HERE / "expected.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()

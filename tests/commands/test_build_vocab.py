"""The real command: a vocabulary that create_pretraining_data.py accepts."""

import gzip
import json
import pathlib

from bert_keras.data.tokenizers import check_any_vocabulary
from tests.conftest import fails_with, forked


def test_learns_from_several_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a1.txt").write_text("Sea sea\nseas\n")
    (tmp_path / "a2.txt.gz").write_bytes(gzip.compress(b"The SEAS, ax\n"))
    out = tmp_path / "new" / "vocab.txt"
    output = forked(
        "build_vocab.py",
        f"--input_file={tmp_path}/a1.txt,{tmp_path}/a2*",
        f"--output_file={out}",
        "--vocab_size=50",
        "--num_unused=2",
    )
    # Characters seen twice: a, e, s. Merges: ##e##a or s##e first (4 each).
    pieces = out.read_text().splitlines()
    assert pieces[:7] == [
        "[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    ]  # fmt: skip
    assert pieces[7:13] == ["a", "e", "s", "##a", "##e", "##s"]
    assert {"sea", "seas"} <= set(pieces[13:])
    assert len(check_any_vocabulary(str(out))) == len(pieces)
    # sea 2, seas 2; the, "," and ax have characters that come once.
    assert output == (
        "words                             7\n"
        "  [UNK]                      42.86%\n"
        "distinct words                    5\n"
        f"tokens              {len(pieces):>15}\n"
        "  whole words                     2\n"
        "fewer tokens than --vocab_size=50: the text has no more that are "
        "frequent enough, which is fine\n"
    )


def test_json_lines_are_read_by_their_format(tmp_path: pathlib.Path) -> None:
    texts = ["The café.\nSea seas", "sea seas"]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    lines = "\n".join(json.dumps({"body": text}) for text in texts)
    (tmp_path / "a.jsonl").write_text(f"{lines}\n")
    args = "build_vocab.py", "--num_unused=2", "--min_frequency=1"
    plain = f"--input_file={tmp_path}/a.txt", f"--output_file={tmp_path}/plain"
    forked(*args, *plain)
    out = tmp_path / "vocab.txt"
    json_lines = f"--input_file={tmp_path}/*.jsonl", f"--output_file={out}"
    assert "give --input_format=jsonl, with an object" in fails_with(
        *args, *json_lines
    )
    assert not out.exists()
    forked(*args, *json_lines, "--input_format=jsonl", "--text_field=body")
    assert out.read_bytes() == (tmp_path / "plain").read_bytes()


def test_bad_output(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("sea sea\n")
    path = f"{tmp_path}/a.txt/vocab.txt"
    refusal = fails_with(
        "build_vocab.py",
        f"--input_file={tmp_path}/a.txt",
        f"--output_file={path}",
    )
    assert refusal.startswith("build_vocab.py: cannot write ")
    assert f"--output_file={path}" in refusal

"""The real command: a vocabulary that create_pretraining_data.py accepts."""

import gzip
import pathlib
import subprocess
import sys

from bert_keras.data.tokenizers import check_any_vocabulary

ROOT = pathlib.Path(__file__).parents[2]


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "build_vocab.py", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_learns_from_several_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a1.txt").write_text("Sea sea\nseas\n")
    (tmp_path / "a2.txt.gz").write_bytes(gzip.compress(b"The SEAS, ax\n"))
    out = tmp_path / "new" / "vocab.txt"
    done = run(
        f"--input_file={tmp_path}/a1.txt,{tmp_path}/a2*",
        f"--output_file={out}",
        "--vocab_size=50",
        "--num_unused=2",
    )
    assert done.returncode == 0, done.stderr
    # Characters seen twice: a, e, s. Merges: ##e##a or s##e first (4 each).
    pieces = out.read_text().splitlines()
    assert pieces[:7] == [
        "[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    ]  # fmt: skip
    assert pieces[7:13] == ["a", "e", "s", "##a", "##e", "##s"]
    assert {"sea", "seas"} <= set(pieces[13:])
    assert len(check_any_vocabulary(str(out))) == len(pieces)
    # sea 2, seas 2; the, "," and ax have characters that come once.
    assert done.stdout == (
        "words                             7\n"
        "  [UNK]                      42.86%\n"
        "distinct words                    5\n"
        f"tokens              {len(pieces):>15}\n"
        "  whole words                     2\n"
        "fewer tokens than --vocab_size=50: the text has no more that are "
        "frequent enough, which is fine\n"
    )


def test_bad_output(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("sea sea\n")
    path = f"{tmp_path}/a.txt/vocab.txt"
    done = run(f"--input_file={tmp_path}/a.txt", f"--output_file={path}")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last_line = done.stderr.splitlines()[-1]
    assert last_line.startswith("build_vocab.py: cannot write ")
    assert f"--output_file={path}" in last_line

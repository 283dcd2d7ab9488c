"""The real command: its records, its summary, and its one-sentence errors."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from bert_keras.data import record_schema, tfrecords, tokenization
from tests.conftest import GOLDEN, ROOT, fails_with, forked, run, well_ended

CORPUS, VOCAB = GOLDEN / "tiny_corpus.txt", GOLDEN / "tiny_vocab.txt"
COMMAND = "create_pretraining_data.py"


def read(path: pathlib.Path, max_seq_length: int) -> list[dict[str, list[int]]]:
    batch = tfrecords.parse_batch(
        record_schema.pretraining_features(max_seq_length, 5),
        list(tfrecords.read_records(str(path))),
    )
    arrays = {name: values.numpy().tolist() for name, values in batch.items()}
    return [
        dict(zip(arrays, row, strict=True))
        for row in zip(*arrays.values(), strict=True)
    ]


def test_golden_records_and_summary(tmp_path: pathlib.Path) -> None:
    one, two = tmp_path / "new" / "one.tfrecord", tmp_path / "two.tfrecord.gz"
    output = run(
        COMMAND,
        f"--input_file={CORPUS}",
        f"--vocab_file={VOCAB}",
        f"--output_file={one},{two}",
        "--sampler=google",
        "--do_lower=True",
        "--max_seq_length=23",
        "--max_predictions_per_seq=5",
        "--dupe_factor=3",
        "--short_seq_prob=0.3",
        "--random_seed=11",
    )
    made = read(one, 23), read(two, 23)
    expected = json.loads((GOLDEN / "tiny_instances.json").read_text("utf-8"))
    assert len(expected) == 32
    vocab = tokenization.load_vocab(str(VOCAB))
    for i, instance in enumerate(expected):
        record = made[i % 2][i // 2]
        num_tokens = len(instance["tokens"])
        num_masked = len(instance["masked_lm_positions"])
        assert record["input_mask"] == (
            [1] * num_tokens + [0] * (23 - num_tokens)
        )
        assert record["input_ids"][:num_tokens] == [
            vocab[token] for token in instance["tokens"]
        ]
        assert record["masked_lm_ids"][:num_masked] == [
            vocab[label] for label in instance["masked_lm_labels"]
        ]
        assert record["next_sentence_labels"] == [instance["is_random_next"]]
    assert_summary(output, expected)


def assert_summary(stdout: str, expected: list[dict[str, list[str]]]) -> None:
    """The golden instances, counted otherwise; the corpus, counted by hand."""
    shown = {
        line[:20].strip(): line[20:].strip() for line in stdout.splitlines()
    }
    num_random = sum(bool(i["is_random_next"]) for i in expected)
    num_tokens = sum(len(i["tokens"]) for i in expected)
    num_masked = sum(len(i["masked_lm_positions"]) for i in expected)
    truncated = float(shown.pop("pairs truncated").rstrip("%"))
    assert 0 < truncated < 100
    assert shown == {
        "documents": "5",
        "sentences": "15",
        "tokens": "142",
        "[UNK]": f"{5 / 142:.2%}",  # and, :, ;, and, to
        "records": "32",
        "label 0, is next": f"{1 - num_random / 32:.2%}",
        "label 1, random": f"{num_random / 32:.2%}",
        "tokens in records": f"{num_tokens:,}",
        "masked": f"{num_masked / num_tokens:.2%}",
    }


@pytest.mark.parametrize("sampler", ["vectorized", "google"])
def test_summary_by_hand(tmp_path: pathlib.Path, sampler: str) -> None:
    # Two documents of one sentence each: every pair is random, and each of
    # the four records is [CLS] 4 pieces [SEP] 4 pieces [SEP] with 2 masks
    # (11 * 0.15 = 1.65). 8 pieces in 8: nothing is cut off.
    (tmp_path / "a1.txt").write_text("The sea, zoo\n\n")
    (tmp_path / "a2.txt").write_text("café old ship.\n\n", "utf-8")
    output = forked(
        COMMAND,
        f"--input_file={tmp_path}/a*.txt",
        f"--vocab_file={VOCAB}",
        f"--output_file={tmp_path}/out",
        f"--sampler={sampler}",
        "--nostrip_accents",
        "--max_seq_length=11",
        "--max_predictions_per_seq=5",
        "--dupe_factor=2",
        "--short_seq_prob=0",
        "--do_whole_word_mask",
    )
    assert output == (
        "documents                         2\n"
        "sentences                         2\n"
        "tokens                            8\n"
        "  [UNK]                      12.50%\n"
        "records                           4\n"
        "  label 0, is next            0.00%\n"
        "  label 1, random           100.00%\n"
        "  pairs truncated             0.00%\n"
        "tokens in records                44\n"
        "  masked                     18.18%\n"
    )
    made = read(tmp_path / "out", 11)
    vocab = tokenization.load_vocab(str(VOCAB))
    seen = {i for r in made for i in (*r["input_ids"], *r["masked_lm_ids"])}
    assert vocab["café"] in seen


def test_what_defeats_the_run_is_said(tmp_path: pathlib.Path) -> None:
    """Lines of 40 tokens, for pairs of 30: nearly all are cut and random."""
    paragraph = "the old captain saw the sea . a storm blew " * 4
    (tmp_path / "text.txt").write_text(f"{paragraph}\n{paragraph}\n\n" * 3)
    said = well_ended(
        COMMAND,
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={VOCAB}",
        f"--output_file={tmp_path}/out",
        "--max_seq_length=33",
        "--max_predictions_per_seq=2",
        "--num_workers=1",
        "--short_seq_prob=0",
        "--dupe_factor=1",
    ).errors
    assert "asks for 5 masked tokens in a record of --max_seq_length=33" in said
    assert "100% of the pairs are cut and 100% are random" in said
    assert "lines of 40 tokens on average" in said


def test_help_is_quick_and_names_googles_defaults() -> None:
    code = (
        "import sys, create_pretraining_data as command\n"
        "flags = command.FLAGS\n"
        "assert 'tensorflow' not in sys.modules\n"
        "print([flags[name].value for name in sys.argv[1:]])\n"
    )
    names = (
        "do_lower_case do_whole_word_mask max_seq_length random_seed "
        "max_predictions_per_seq dupe_factor masked_lm_prob short_seq_prob"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names.split()],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    # The case is True unless a file beside the vocabulary says otherwise.
    assert done.stdout == "[None, False, 128, 12345, 20, 10, 0.15, 0.1]\n"


def bad_files(folder: pathlib.Path) -> None:
    (folder / "empty.txt").touch()
    (folder / "one_document.txt").write_text("a sea\na ship\n\n\n")
    (folder / "latin1.txt").write_bytes(b"a\n\nb\ncaf\xe9\n")
    (folder / "lines.jsonl").write_text('\n{"text": "a"}\n')
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\nsea\n")
    (folder / "model").mkdir()
    (folder / "model" / "vocab.txt").write_bytes(VOCAB.read_bytes())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input_file={}/nothing*"], "no file matches --input_file={}/noth"),
        (
            ["--input_file={}/one_document.txt"],
            "or give --sequence_format=full_sentences",
        ),
        (["--input_file={}/latin1.txt"], "{}/latin1.txt, line 4 is not UTF-8"),
        (
            ["--input_file={}/one_document.txt", "--sampler=google"],
            "next sentence prediction",
        ),
        (
            ["--input_file={}/latin1.txt", "--sampler=google"],
            "{}/latin1.txt, line 4 is not UTF-8",
        ),
        (
            ["--sampler=google", "--input_format=jsonl"],
            "--sampler=google has no --input_format",
        ),
        (
            ["--input_file={}/one_document.txt,{}/*.jsonl"],
            "{}/lines.jsonl, line 2 looks like JSON, and --input_format="
            "sentences would take it for text; give --input_format=jsonl",
        ),
        (["--language=german"], "--language=german has no rules for sent"),
        (["--vocab_file={}/vocab.txt"], "it lacks [CLS], [SEP], [MASK]"),
        (["--max_seq_length=4"], "--max_seq_length=4 is too small"),
        (["--max_seq_length=16"], "--max_predictions_per_seq=20 must lie"),
        (["--output_file={}/empty.txt/out"], "--output_file={}/empty.txt/out"),
        (
            [
                "--vocab_file={}/model/vocab.txt",
                "--output_file={}/model/task.json",
            ],
            "--output_file={}/model/task.json would overwrite a file of",
        ),
    ],
)
def test_bad_input(
    tmp_path: pathlib.Path, flags: list[str], message: str
) -> None:
    bad_files(tmp_path)
    before = sorted(os.listdir(tmp_path))
    refusal = fails_with(
        COMMAND,
        f"--input_file={CORPUS}",
        f"--vocab_file={VOCAB}",
        f"--output_file={tmp_path}/out",
        *[flag.replace("{}", str(tmp_path)) for flag in flags],
    )
    assert refusal.startswith("create_pretraining_data.py: ")
    assert message.replace("{}", str(tmp_path)) in refusal
    assert sorted(os.listdir(tmp_path)) == before

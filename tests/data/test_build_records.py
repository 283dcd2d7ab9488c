"""create_pretraining_data.py's own way: workers, stops, and what it refuses."""

import dataclasses
import errno
import gzip
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import files
from bert_keras.data import build_records
from bert_keras.data.build_records import (
    CHUNK_RECORDS,
    RecordBuildConfig,
    choose_num_parts,
    outputs_of,
    read_chunks,
    writing_chunks,
)
from bert_keras.data.corpus import TextFormat
from bert_keras.data.instances import InstanceConfig, Summary
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.text_files import expand_patterns
from bert_keras.data.tfrecords import parse_batch, read_records
from bert_keras.data.tokenizers import TokenizerSettings
from bert_keras.data.validate_records import check_files
from bert_keras.errors import InputError
from tests.conftest import (
    GOLDEN,
    fails_with,
    forked,
    run,
    start_fork,
    well_ended,
)

VOCAB = GOLDEN / "tiny_vocab.txt"
SCRIPT = "tests/make_small_parts.py"
WORDS = "the sea an old ship zoo café , . and".split()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 documents, which are 8 spans and 14 parts."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    rng = np.random.default_rng(1)
    documents = [
        "\n".join(
            " ".join(rng.choice(WORDS, rng.integers(1, 12)))
            for _ in range(rng.integers(1, 12))
        )
        for _ in range(200)
    ]
    path.write_text("\n\n".join(documents), "utf-8")
    return path


def flags(text: Path, folder: Path, *names: str) -> list[str]:
    return [
        f"--input_file={text}",
        f"--vocab_file={VOCAB}",
        f"--output_file={','.join(str(folder / name) for name in names)}",
        "--max_seq_length=23",
        "--max_predictions_per_seq=5",
        "--dupe_factor=3",
    ]


@pytest.fixture(scope="module")
def expected(
    text: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[bytes], str]:
    """Both files of one process, and what it printed."""
    folder = tmp_path_factory.mktemp("one")
    output = forked(SCRIPT, *flags(text, folder, "a", "b"), "--num_workers=1")
    return [(folder / name).read_bytes() for name in "ab"], output


@pytest.mark.slow
def test_two_processes_make_the_same(
    text: Path, tmp_path: Path, expected: tuple[list[bytes], str]
) -> None:
    given = flags(text, tmp_path, "new/a", "b")
    output = run(SCRIPT, *given, "--num_workers=2")
    assert (tmp_path / "new" / "a").read_bytes() == expected[0][0]
    assert (tmp_path / "b").read_bytes() == expected[0][1]
    assert output == expected[1]
    counted = {
        line[:20].strip(): line[20:].strip() for line in output.splitlines()
    }
    assert counted["documents"] == "200"
    num_records = sum(
        1 for name in ("new/a", "b") for _ in read_records(str(tmp_path / name))
    )
    assert counted["records"] == f"{num_records:,}"
    assert 400 < num_records < 3000


def test_a_file_without_records_is_told(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the old captain\nsaw the sea\n\na storm\nblew\n")
    names = [f"{number}.tfrecord" for number in range(9)]
    given = flags(text, tmp_path, *names)
    for sampler in ("vectorized", "google"):
        args = [*given[:-1], "--dupe_factor=1", f"--sampler={sampler}"]
        said = well_ended(SCRIPT, *args).errors
        empty = [x for x in names if not (tmp_path / x).stat().st_size]
        assert len(empty) > 4
        assert f"{len(empty)} of 9 files have no record ({tmp_path}" in said


@pytest.mark.parametrize("moment", ["span-2.json", "part-3.json"])
def test_a_killed_run_goes_on(
    text: Path,
    tmp_path: Path,
    expected: tuple[list[bytes], str],
    moment: str,
) -> None:
    given = flags(text, tmp_path, "a", "b")
    process = start_fork(SCRIPT, *given, "--num_workers=1")
    while not (tmp_path / ".a.making" / moment).exists():
        assert process.is_running(), process.ended()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.ended().code == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    kept = tmp_path / ".a.making" / moment
    time_made = kept.stat().st_mtime_ns
    refusal = fails_with(SCRIPT, *given, "--masked_lm_prob=0.3")
    assert "with other --masked_lm_prob; delete the folder" in refusal
    assert kept.stat().st_mtime_ns == time_made
    ended = well_ended(SCRIPT, *given, "--num_workers=1")
    assert ended.output == expected[1]
    assert "per second" not in ended.errors  # not all is of this run
    assert [(tmp_path / name).read_bytes() for name in "ab"] == expected[0]


@pytest.mark.slow
def test_what_is_made_is_made_once(
    text: Path, tmp_path: Path, expected: tuple[list[bytes], str]
) -> None:
    given = flags(text, tmp_path, "a", "b.gz")
    first = forked(SCRIPT, *given, "--num_workers=1")
    assert first == expected[1]
    unpacked = gzip.decompress((tmp_path / "b.gz").read_bytes())
    assert unpacked == expected[0][1]
    assert len(list(read_records(str(tmp_path / "b.gz")))) > 100
    assert expand_patterns(f"{tmp_path}/*") == [
        f"{tmp_path}/a",
        f"{tmp_path}/b.gz",
    ]
    assert sorted(os.listdir(tmp_path)) == [".a.making", "a", "b.gz"]
    assert "made already" in forked(SCRIPT, *given)
    os.remove(tmp_path / "a")
    assert forked(SCRIPT, *given, "--num_workers=1") == first
    # as large, but another command's
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[::-1])
    os.utime(text)
    said = f"{tmp_path}/a has changed since it was made; making it again\n"
    assert forked(SCRIPT, *given, "--num_workers=1") == said + first
    assert (tmp_path / "a").read_bytes() == expected[0][0]
    other = tmp_path / "other.txt"
    other.write_text(text.read_text("utf-8") + "\n\nzoo", "utf-8")
    again = flags(other, tmp_path, "a", "b.gz")
    assert "with other --input_file" in fails_with(SCRIPT, *again)


def test_spaced_words_are_masked_whole(tmp_path: Path) -> None:
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"使用语言模型"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab), "utf-8")
    text = "使用 语言 模型\n语言 模型\n\n模型 使用\n语言\n"
    (tmp_path / "text.txt").write_text(text, "utf-8")
    forked(
        "create_pretraining_data.py",
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={tmp_path}/vocab.txt",
        f"--output_file={tmp_path}/records",
        "--do_whole_word_mask",
        "--words_are_spaced",
        "--masked_lm_prob=0.3",
        "--dupe_factor=40",
    )
    seen = set()
    batch = parse_batch(
        pretraining_features(128, 20),
        list(read_records(str(tmp_path / "records"))),
    )
    arrays = {name: values.numpy() for name, values in batch.items()}
    for ids, places, labels, weights in zip(
        *(
            arrays[name]
            for name in (
                "input_ids",
                "masked_lm_positions",
                "masked_lm_ids",
                "masked_lm_weights",
            )
        ),
        strict=True,
    ):
        assert ids.max() < len(vocab)
        count = int(weights.sum())
        hidden = dict(
            zip(places[:count].tolist(), labels.tolist(), strict=False)
        )
        for place, label in hidden.items():
            is_first = (label - 5) % 2 == 0  # of a word's two signs
            other = place + 1 if is_first else place - 1
            assert hidden[other] == label + (1 if is_first else -1)
            seen.add(label)
    assert seen == set(range(5, 11))


def test_a_part_has_one_file_or_several() -> None:
    assert [outputs_of(part, 5, 2) for part in range(5)] == [
        [0], [1], [0], [1], [0],
    ]  # fmt: skip
    assert [outputs_of(part, 2, 5) for part in range(2)] == [
        [0, 2, 4],
        [1, 3],
    ]


def test_outputs_of_one_name_in_two_buckets_have_two_folders() -> None:
    paths = "gs://a/records", "gs://b/records"
    build = [dataclasses.replace(make(1, 1), output_files=(p,)) for p in paths]
    assert len({m.folder for m in build}) == 2
    assert all(os.path.dirname(m.folder) == "" for m in build)


def make(memory_mb: int, dupe_factor: int) -> RecordBuildConfig:
    config = InstanceConfig(dupe_factor=dupe_factor)
    return RecordBuildConfig(
        (),
        ("a",),
        "",
        TokenizerSettings(),
        False,
        TextFormat(),
        memory_mb,
        config,
    )


def test_number_of_parts() -> None:
    # 16 + 4 * 6 = 40 bytes a piece and 160 * 6 a document: 2 ** 20 pieces of
    # 1,000 documents take 41 MiB
    small = Summary(num_documents=1000, num_pieces=1 << 20)
    assert choose_num_parts(make(40, 6), small) == 4  # of 250,000 pieces
    assert choose_num_parts(make(20, 6), Summary(10, num_pieces=1 << 20)) == 3
    large = Summary(num_documents=1000, num_pieces=100 << 20)
    assert choose_num_parts(make(40, 6), large) == 101
    assert choose_num_parts(make(800, 6), large) == 7  # of 128 documents
    short = Summary(num_documents=1 << 20, num_pieces=1 << 20)
    assert choose_num_parts(make(40, 6), short) == 25
    few = Summary(num_documents=10, num_pieces=100 << 20)
    assert choose_num_parts(make(40, 6), few) == 5  # two of them in each
    assert (
        choose_num_parts(make(40, 6), Summary(num_documents=2, num_pieces=3))
        == 1
    )


def test_features_fit_the_table(
    text: Path, expected: tuple[list[bytes], str], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(expected[0][0])
    vocab_size = len(VOCAB.read_text("utf-8").splitlines())
    check_files([str(path)], pretraining_features(23, 5, 2), vocab_size)


@pytest.mark.parametrize("count", [0, 3, CHUNK_RECORDS, 3 * CHUNK_RECORDS + 1])
def test_chunks_are_whole_records(tmp_path: Path, count: int) -> None:
    path = tmp_path / "records"
    written = [b"x" * (number % 7) + b"%d" % number for number in range(count)]
    with writing_chunks(str(path)) as write:
        write(written[:2])
        write(written[2:])
    chunks = list(read_chunks(str(path)))
    assert b"".join(chunks) == path.read_bytes()
    found = []
    for chunk in chunks:
        (tmp_path / "chunk").write_bytes(chunk)
        own = list(read_records(str(tmp_path / "chunk")))
        assert len(own) <= CHUNK_RECORDS
        found += own
    assert found == written


@pytest.mark.parametrize(
    "fault", ["", "no ends", "cut ends", "empty ends", "no file"]
)
def test_a_file_that_has_lost_something(tmp_path: Path, fault: str) -> None:
    path, ends = tmp_path / "records", tmp_path / "records.npy"
    with writing_chunks(str(path)) as write:
        write([b"abc"])
    match fault:
        case "no ends":
            ends.unlink()
        case "cut ends":
            ends.write_bytes(ends.read_bytes()[:-1])
        case "empty ends":
            ends.write_bytes(b"")
        case "no file":
            path.unlink()
        case _:
            path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"records is not whole"):
        list(read_chunks(str(path)))


def test_a_run_stopped_between_two_output_files_goes_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    build = RecordBuildConfig(
        (str(text),),
        tuple(paths),
        str(VOCAB),
        TokenizerSettings(),
        False,
        TextFormat(),
        40,
        InstanceConfig(max_seq_length=23, max_predictions_per_seq=5),
    )
    monkeypatch.setattr(build_records, "LEAST_PIECES", 500)
    monkeypatch.setattr(build_records, "LEAST_DOCUMENTS", 7)
    whole = dataclasses.replace(
        build, output_files=tuple(str(tmp_path / "whole" / x) for x in "ab")
    )
    build_records.make_records(whole, 1)
    writing = files.writing

    def fill_disk(path: str, argument: str) -> Any:
        if path == paths[1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writing(path, argument)

    monkeypatch.setattr(files, "writing", fill_disk)
    with pytest.raises(InputError, match="No space left"):
        build_records.make_records(build, 1)
    assert not os.path.exists(paths[1])
    first = Path(paths[0]).read_bytes()
    monkeypatch.setattr(files, "writing", writing)
    Path(paths[0]).write_bytes(first + b"x")
    with pytest.raises(InputError, match="a is not as this command left it"):
        build_records.make_records(build, 1)
    assert Path(paths[0]).read_bytes() == first + b"x"
    Path(paths[0]).write_bytes(first)
    build_records.make_records(build, 1)
    for path, expected in zip(paths, whole.output_files, strict=True):
        assert Path(path).read_bytes() == Path(expected).read_bytes()

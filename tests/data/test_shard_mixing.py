"""Record files in chunks."""

from pathlib import Path

import pytest

from bert_keras.data.shard_mixing import (
    CHUNK_RECORDS,
    move,
    read_chunks,
    writing_chunks,
)
from bert_keras.data.tfrecords import read_records
from bert_keras.errors import InputError


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


@pytest.mark.parametrize("fault", ["", "no ends", "cut ends", "empty ends"])
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
        case _:
            path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"records is not whole"):
        list(read_chunks(str(path)))


def test_a_file_that_was_moved_before_a_stop(tmp_path: Path) -> None:
    missing, path = str(tmp_path / "part"), tmp_path / "output"
    path.write_bytes(b"records")
    assert move(missing, str(path))
    assert path.read_bytes() == b"records"
    path.unlink()
    with pytest.raises(InputError, match=r"part is not whole"):
        move(missing, str(path))

"""Tests of data/text_files.py."""

import gzip
import io
import os
import pathlib
import sys

import pytest
import tensorflow as tf

from bert_keras import files
from bert_keras.data import text_files
from bert_keras.errors import InputError


def test_expand_patterns(tmp_path: pathlib.Path) -> None:
    for name in ("b2", "b1", "b3", "a", "c"):
        (tmp_path / name).touch()
    found = text_files.expand_patterns(
        f"{tmp_path}/c,{tmp_path}/b*,{tmp_path}/a"
    )
    assert found == [
        f"{tmp_path}/{name}" for name in ("c", "b1", "b2", "b3", "a")
    ]
    for name in ("a[1].txt", "a1.txt"):
        (tmp_path / name).touch()
    found = text_files.expand_patterns(f"{tmp_path}/a[1].txt")
    assert found == [f"{tmp_path}/a[1].txt"]
    with pytest.raises(InputError, match="no file matches `eval_file=.*/d"):
        text_files.expand_patterns(f"{tmp_path}/a,{tmp_path}/d*", "eval_file")


def test_a_file_that_is_named_twice_is_read_once(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("b1", "b2", "a"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    b1, b2, a, link = (f"{tmp_path}/{x}" for x in ("b1", "b2", "a", "link"))
    assert text_files.expand_patterns(f"{b2},{a}") == [b2, a]
    assert capsys.readouterr().err == ""
    assert text_files.expand_patterns(f"{b2},{tmp_path}/b*") == [b2, b1]
    said = capsys.readouterr().err
    assert said.startswith(f"`input_file` names {b2} more than once: each file")
    found = text_files.expand_patterns(f"{link},{a},{tmp_path}/./b1,{b1},{b1}")
    assert found == [link, f"{tmp_path}/./b1"]
    said = capsys.readouterr().err
    assert f"names {link} and 1 other file more than once" in said


def test_a_bucket_that_cannot_be_read_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pattern: str) -> list[str]:
        raise tf.errors.FailedPreconditionError(None, None, "no host\n\tof it")

    monkeypatch.setattr(tf.io.gfile, "glob", refuse)
    with pytest.raises(InputError, match=r"`input_file=gs://b/x\*` \(no host"):
        text_files.expand_patterns("gs://b/x*")


def test_what_the_system_does_not_tell_is_not_taken_to_be_absent(
    tmp_path: pathlib.Path,
) -> None:
    """As in a folder that may not be entered, which root may."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot read .*loop/a: Too many"):
        text_files.expand_patterns(f"{tmp_path}/loop/a")
    with pytest.raises(InputError, match="cannot read .*/loop: Too many"):
        files.beside(str(tmp_path), ["none", "loop"])


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes")
def test_a_name_that_is_not_utf8(tmp_path: pathlib.Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).touch()
    with pytest.raises(InputError, match=r"/caf\\udce9.txt, whose name is not"):
        text_files.expand_patterns(f"{tmp_path}/*.txt")


def test_read_lines(tmp_path: pathlib.Path) -> None:
    text = "a\rb\r\n\u2028é\n\nend"
    lines = ["ab\n", "\u2028é\n", "\n", "end"]  # as GFile.readline has it
    (tmp_path / "a").write_bytes(text.encode("utf-8-sig"))
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    sizes: list[int] = []
    assert list(text_files.read_lines(f"{tmp_path}/a", sizes.append)) == lines
    assert sizes == [8, 6, 1, 3]  # with what is dropped
    assert list(text_files.read_lines(f"{tmp_path}/a.gz")) == lines
    spaced = text_files.read_lines(f"{tmp_path}/a", lone_return=b" ")
    assert list(spaced) == ["a b\n", *lines[1:]]


def test_read_lines_names_what_is_wrong(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes("é\nb".encode() + b"\xe9\n")
    with pytest.raises(InputError, match="a, line 2 is not UTF-8.*0xe9.* 2$"):
        list(text_files.read_lines(f"{tmp_path}/a"))
    packed = gzip.compress(os.urandom(9000))
    (tmp_path / "b.gz").write_bytes(packed[:5000])
    with pytest.raises(InputError, match=r"b\.gz"):
        list(text_files.read_lines(f"{tmp_path}/b.gz"))
    (tmp_path / "c.gz").write_bytes(b"plain\n")
    with pytest.raises(InputError, match=r"cannot read .*c\.gz"):
        list(text_files.read_lines(f"{tmp_path}/c.gz"))
    with pytest.raises(InputError, match="cannot read .*nothing"):
        list(text_files.read_lines(f"{tmp_path}/nothing"))


def test_a_folder_is_no_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "text").mkdir()
    with pytest.raises(InputError, match=r"text is a folder; give .*text/\*"):
        text_files.expand_patterns(str(tmp_path / "*"))


def test_a_line_that_is_too_long_is_named() -> None:
    def read(longest: int) -> list[tuple[int, str]]:
        reader = io.BytesIO(b"a\nbcdefg\nh\n")
        lines = text_files.text_lines(reader, longest=longest)
        return [*text_files.numbered("standard input", lines, longest)]

    assert read(7) == [(1, "a\n"), (2, "bcdefg\n"), (3, "h\n")]
    with pytest.raises(InputError, match="standard input, line 2 is longer"):
        read(5)


def test_a_pipe_is_not_read_twice(tmp_path: pathlib.Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe .* write what it gives"):
        text_files.expand_patterns(pipe)
    assert text_files.expand_patterns(pipe, takes_pipes=True) == [pipe]


def test_a_fingerprint_is_of_what_is_in_a_file(tmp_path: pathlib.Path) -> None:
    def of(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        return files.fingerprint(str(tmp_path / name))

    # crc32 of b"123456789" is the check value of its definition
    assert of("a", b"123456789") == "9 bytes, checksum cbf43926"
    assert of("b", b"123456789") == of("a", b"123456789")
    assert of("a", b"123456798") != of("b", b"123456789")
    assert of("a", b"") == "0 bytes, checksum 00000000"
    long = bytes(3 << 20)
    first, last = b"x" + long[1:], long[1:] + b"x"
    kinds = {of("a", long), of("a", first), of("a", last), of("a", long[1:])}
    assert len(kinds) == 4

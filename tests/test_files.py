"""Tests of bert_keras/files.py: what is written appears whole or not at all."""

import gzip
import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras import files, locks
from bert_keras.checkpoint_index import read_index
from bert_keras.errors import InputError
from bert_keras.training.checkpoints import saved_states
from tests.conftest import ROOT
from tests.limits import time_limit


def test_a_file_or_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with files.atomic(str(tmp_path / "folder")) as folder:
        Path(folder).mkdir()
        assert not (tmp_path / "folder").exists()
    with files.atomic(str(tmp_path / "file")) as file:
        Path(file).write_text("new")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match="stop"):  # noqa: SIM117
        with files.atomic(str(tmp_path / "file"), overwrite=True) as file:
            Path(file).write_text("new")
            raise OSError("stop")
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_bucket_that_does_not_answer_is_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To TensorFlow the file has no line, and the folder is not there."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:1")
    path = "gs://bert-keras-has-no-bucket/text.txt"
    with (
        pytest.raises(InputError, match=f"cannot read {path}: "),
        files.open_unpacked(path) as file,
    ):
        list(file)
    with pytest.raises(InputError, match=f"cannot read {path}: "):
        files.is_dir(path)
    with pytest.raises(InputError, match="cannot read gs://.*/run/"):
        saved_states("gs://bert-keras-has-no-bucket/run")


def test_a_new_folder_is_not_blamed_for_what_is_read(tmp_path: Path) -> None:
    missing, out = str(tmp_path / "missing"), str(tmp_path / "out")
    with (
        pytest.raises(tf.errors.NotFoundError, match="missing; No such file"),
        files.new_folder(out),
    ):
        tf.io.gfile.GFile(missing).read()
    with (
        pytest.raises(InputError, match="cannot write `output_dir="),
        files.new_folder(out) as folder,
    ):
        tf.io.gfile.GFile(f"{folder}/a/b", "w").write("text")


def test_a_remote_file_is_read_from_anywhere() -> None:
    text = "".join(f"line {i}\n" for i in range(300_000))
    tf.io.gfile.GFile("ram://x/text.txt", "w").write(text)
    with files.open_unpacked("ram://x/text.txt") as file:
        assert file.read().decode() == text
        file.seek(2_000_000)
        line = text[2_000_000:].splitlines(keepends=True)[0]
        assert file.readline().decode() == line
        file.seek(len(text) + 7)
        assert file.read() == b""
    packed = gzip.compress(text.encode())
    tf.io.gfile.GFile("ram://x/text.txt.gz", "wb").write(packed)
    with files.open_unpacked("ram://x/text.txt.gz") as file:
        assert file.readline() == b"line 0\n"
        file.seek(0)
        assert file.read().decode() == text


def test_removing_a_folder_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("gone", "link", "not there"):
        files.remove(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "file").exists()


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with files.writing(str(tmp_path / "link"), "output_file") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_link_in_output_dir_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("mine")
    path = tmp_path / "run" / "train.txt"
    path.symlink_to(tmp_path / "mine")
    with files.writing(str(path), "output_dir") as file:
        file.write(b"new")
        assert [each.name for each in tmp_path.glob(".*")] == []
    assert path.read_text() == "new"
    assert (tmp_path / "mine").read_text() == "mine"
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["train.txt"]


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    with files.writing(str(pipe), "output_file") as file:
        file.write(b"line\n")
    reader.join()
    assert found == ["line\n"]
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_failure_beside_a_device_is_not_blamed_on_it() -> None:
    error = tf.errors.ResourceExhaustedError(None, None, "OOM")
    with pytest.raises(tf.errors.ResourceExhaustedError):  # noqa: SIM117
        with files.writing(os.devnull, "output_file"):
            raise error


def test_a_device_stays(tmp_path: Path) -> None:
    with files.writing(os.devnull, "output_file") as file:
        file.write(b"line\n")
    assert Path(os.devnull).is_char_device()


def test_what_is_read_is_not_overwritten(tmp_path: Path) -> None:
    read = tmp_path / "corpus.txt"
    read.touch()
    (tmp_path / "link").symlink_to(read)
    (tmp_path / "other").touch()
    for name in ("corpus.txt", "link", "../" + tmp_path.name + "/corpus.txt"):
        with pytest.raises(InputError, match=r"overwrite `input_file=.*corpus"):
            files.refuse_inputs(
                "output_file", f"{tmp_path}/{name}", input_file=[str(read)]
            )
    for name in ("other", "new"):
        files.refuse_inputs(
            "output_file", f"{tmp_path}/{name}", input_file=[str(read)]
        )
        files.refuse_inputs(
            "output_dir", str(tmp_path), (name,), input_file=[str(read)]
        )
    with pytest.raises(InputError, match="corpus.txt`, which is .* folder$"):
        files.refuse_inputs(
            "output_dir", str(tmp_path), ("a", "link"), input_file=[str(read)]
        )


def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with files.writing(path, "output_file") as file:
        again = files.writing(path, "output_file")
        with pytest.raises(InputError, match=r"output_file=.* being written"):
            again.__enter__()
        file.write(b"first")
    assert Path(path).read_text() == "first"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    with files.writing(str(path), "output_file") as file:
        file.write(b"text")
    assert path.read_text() == "text"


@pytest.mark.parametrize("text", ["", "{", "3", "\xff"])
def test_damaged_json_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"file\.json is not .* give another"):
        files.read_json(str(path), "give another")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '{"a": "NaN \\" -Infinity", "b": [1,\n NaN]}',
            "NaN .* line 2 column 2",
        ),
        ("-Infinity", "-Infinity is not a number in JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "a number of too many digits"),
        (b"\xff", "can't decode byte 0xff"),
        ("", "Expecting value"),
    ],
)
def test_json_is_what_all_programs_call_so(
    text: str | bytes, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        files.parse_json(text)


def test_a_name_that_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot read .*\\ud800/config.json"):
        files.content(f"{tmp_path}/\ud800/config.json")


def test_a_string_without_an_end_takes_no_longer() -> None:
    with time_limit(5), pytest.raises(ValueError, match="too many digits"):
        files.parse_json('{"a": ' + "1" * 5000 + ', "b": "' + '\\"' * 100_000)


def test_json_has_no_other_numbers() -> None:
    assert files.parse_json(b'\xef\xbb\xbf{"a": [1.5, "NaN"]}') == {
        "a": [1.5, "NaN"]
    }
    values = {"a": [float("nan"), "NaN"], "b": float("-inf")}
    assert files.to_json(values) == '{"a": [null, "NaN"], "b": null}'


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes")
def test_names_in_any_encoding_do_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    assert sorted(files.names_in(str(tmp_path))) == ["a", "caf\udce9"]


def test_the_middle_of_a_large_file_counts(tmp_path: Path) -> None:
    blocks = [bytes([i]) * files.BLOCK_BYTES for i in range(16)]
    (tmp_path / "one").write_bytes(b"".join(blocks))
    (tmp_path / "copy").write_bytes(b"".join(blocks))
    blocks[6], blocks[7] = blocks[7], blocks[6]
    (tmp_path / "other").write_bytes(b"".join(blocks))
    paths = [str(tmp_path / name) for name in ("one", "copy", "other")]
    assert len({*map(files.fingerprint, paths)}) == 1
    one, copy, other = files.identities(paths)
    assert one == copy != other
    assert one.startswith(f"{files.fingerprint(paths[0])}, digest ")
    # Only every fourth block is read, and not the two.
    one, copy, other = files.identities(paths, most=12 * files.BLOCK_BYTES)
    assert one == copy == other
    read = files.identities([paths[1], paths[0]], most=32 * files.BLOCK_BYTES)
    assert read == files.identities(paths[:2])


def test_a_pipe_is_kept_to_be_read_again(tmp_path: Path) -> None:
    pipe = tmp_path / "vocab.txt"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a\nb\n"))
    writer.start()
    assert files.content(str(pipe)) == b"a\nb\n"
    writer.join()
    assert Path(files.seekable(str(pipe))).read_text() == "a\nb\n"
    copy = Path(files.local(str(pipe), is_vocabulary=True))
    assert copy.read_text() == "a\nb\n"
    assert files.seekable(str(copy)) == str(copy)


def test_a_link_within_a_folder_of_ours_is_replaced(tmp_path: Path) -> None:
    """A folder that somebody else has packed may have links to anywhere."""
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "results.json").symlink_to(tmp_path / "thesis")
    files.write_json(str(tmp_path / "results.json"), {})
    assert not (tmp_path / "results.json").is_symlink()
    assert (tmp_path / "thesis").read_text() == "mine"


@pytest.mark.slow
def test_an_open_file_is_added_to(tmp_path: Path) -> None:
    """As in `predict.py --output_file=/dev/stdout >> log`."""
    log = tmp_path / "log"
    code = (
        "import os, sys; from bert_keras import files; "
        "print('before', flush=True); "
        "file = files.writing(sys.argv[1], 'output_file'); "
        "file.__enter__().write(b'answer\\n'); "
        "file.__exit__(None, None, None); "
        "print('after')"
    )
    expected = "mine\n"
    log.write_text(expected)
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        command = ["bash", "-c", '"$0" -c "$1" "$2" >> "$3"']
        subprocess.run(
            [*command, sys.executable, code, name, str(log)],
            cwd=ROOT,
            check=True,
        )
        expected += "before\nanswer\nafter\n"
        assert log.read_text() == expected
    assert list(tmp_path.iterdir()) == [log]


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero is a device"):
        files.local("/dev/zero", is_vocabulary=True)
    assert Path(files.seekable(os.devnull)).read_text() == ""


def test_a_pipe_in_a_folder_is_refused(tmp_path: Path) -> None:
    """It would be waited for."""
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match=r"vocab.txt is a device or a pipe"):
        files.beside(str(tmp_path), ["vocab.txt"])
    os.mkfifo(tmp_path / "model.index")
    with pytest.raises(InputError, match=r"model\.index is a device or a pipe"):
        read_index(str(tmp_path / "model"))


def test_a_file_of_the_name_of_a_lock_stays(tmp_path: Path) -> None:
    own = tmp_path / ".file.lock"
    own.touch()
    with files.writing(str(tmp_path / "file"), "output_file") as file:
        file.write(b"new")
    assert own.is_file()


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o600)
    with files.writing(str(path), "output_file") as file:
        file.write(b"new")
    files.write_whole(str(path), path.read_bytes() + b"er")
    assert path.read_text() == "newer"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_gives_no_mode(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "cached")
    (tmp_path / "cached").touch()
    (tmp_path / "usual").touch()
    files.write_whole(str(tmp_path / "link"), b"new")
    modes = {(tmp_path / name).stat().st_mode for name in ("link", "usual")}
    assert len(modes) == 1
    assert (tmp_path / "cached").read_bytes() == b""


def test_a_file_that_unpacks_to_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv.gz"
    path.write_bytes(gzip.compress(b"\t\n" * (1 << 26)))
    with (
        pytest.raises(InputError, match=r"and unpacks to 134,217,728, which"),
        files.open_unpacked(str(path)),
    ):
        pass
    path.write_bytes(gzip.compress(b"\t\n" * (1 << 20)))
    with files.open_unpacked(str(path)) as file:
        assert len(file.read()) == 1 << 21


def test_a_packed_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "answers.tsv.gz"
    with files.writing(str(path), "output_file") as file:
        file.write(b"the answers")
    first = path.read_bytes()
    assert gzip.decompress(first) == b"the answers"
    with files.writing(str(path), "output_file") as file:
        file.write(b"the answers")
    assert path.read_bytes() == first  # it has no time in it
    with (
        pytest.raises(ZeroDivisionError),
        files.writing(str(path), "output_file") as file,
    ):
        file.write(b"half of")
        raise ZeroDivisionError
    assert path.read_bytes() == first
    path.write_bytes(b"plain" * 99)
    with (
        pytest.raises(InputError, match="ot a gzipped file"),
        files.open_unpacked(str(path)) as file,
    ):
        file.read()


def test_a_mounted_file_is_written(tmp_path: Path) -> None:
    outside, path = tmp_path / "outside", tmp_path / "a file"
    outside.write_text("old")
    path.touch()
    mount = ["mount", "--bind", str(outside), str(path)]
    if shutil.which("mount") is None or subprocess.run(mount).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert files.is_mounted(str(path))
        files.write_whole(str(path), b"new")
    finally:
        subprocess.run(["umount", str(path)], check=True)
    assert not files.is_mounted(str(path))
    assert outside.read_text() == "new"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a file", "outside"]


def test_the_lock_of_a_linked_folder_is_undone(tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    link = tmp_path / "training_state"
    link.symlink_to(tmp_path / "fast")
    held = locks.held()
    locks.lock_until_exit(str(link), "output_dir")
    locks.lock_until_exit(f"{link}/", "output_dir")  # the same
    assert len(locks.held() - held) == 1
    locks.unlock(held)
    with locks.lock(str(link), "output_dir"):
        pass


def test_what_cannot_be_locked_is_named(tmp_path: Path) -> None:
    lock = tmp_path / f".file.{zlib.crc32(b'file'):08x}.lock"
    lock.symlink_to(tmp_path / "mine")
    for kind in ("link", "folder"):
        with (
            pytest.raises(InputError, match=f"lock is a {kind}; expected"),
            files.writing(str(tmp_path / "file"), "output_file"),
        ):
            pass
        assert [*tmp_path.iterdir()] == [lock]
        if kind == "link":
            lock.unlink()
            lock.mkdir()


def test_a_file_of_empty_space_is_not_read(tmp_path: Path) -> None:
    for name in ("task.json", "model.index"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(200 << 30)
    with pytest.raises(InputError, match="task.json has 200 GiB; expected 2 "):
        files.read_json(str(tmp_path / "task.json"))
    with pytest.raises(InputError, match=r"model\.index has 200 GiB"):
        read_index(str(tmp_path / "model"))


def test_a_new_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a user's")
    out = f"{tmp_path}/file/x"
    with pytest.raises(InputError) as refused, files.new_folder(out):
        pass
    assert str(refused.value) == (
        f"cannot write `output_dir={out}`: {tmp_path}/file is not a directory"
    )
    assert (tmp_path / "file").read_text() == "a user's"


def test_a_new_folder_that_another_process_makes_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        pytest.raises(InputError, match=f"`output_dir={out}` exists already"),
        files.new_folder(str(out)),
    ):
        out.mkdir()
        (out / "theirs").touch()
    assert [*tmp_path.iterdir()] == [out]
    assert [*out.iterdir()] == [out / "theirs"]


def test_other_names_of_a_new_folder(tmp_path: Path) -> None:
    for name, made in (("a/.", "a"), ("b//", "b"), ("c/../d", "d")):
        with files.new_folder(f"{tmp_path}/{name}") as folder:
            Path(folder, "x").touch()
        assert (tmp_path / made / "x").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "d"}
    for name, fault in (("", "is empty"), ("/", "exists already")):
        with pytest.raises(InputError, match=fault):
            files.new_folder(name).__enter__()

"""Files here and on gs:// and the like: read, copied, written whole.

A vocabulary is a vocab.txt, or a vocab.json with a merges.txt beside it; of the
latter the path of vocab.json stands for both.
"""

import atexit
import contextlib
import errno
import gzip
import hashlib
import importlib
import io
import itertools
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from bert_keras.errors import InputError
from bert_keras.locks import kept

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _TensorFlow:
        """Imported when it is used: it takes seconds."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("tensorflow"), name)

    tf = _TensorFlow()

CONTROLS = {chr(i): f"\\x{i:02x}" for i in (*range(32), *range(127, 160))}
TSV_ESCAPES = str.maketrans(
    CONTROLS | {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
)
VOCABULARY = "vocab.txt"
BYTE_LEVEL, MERGES = "vocab.json", "merges.txt"
END_BYTES = 1 << 20  # at each end of a file, of which a checksum is made
DIGEST_BYTES = 1 << 30  # at most, of all the files that are compared
BLOCK_BYTES = 1 << 18
MAX_CONTENT = 1 << 31  # bytes of a file that is read whole
GZIP = b"\x1f\x8b"  # how such a file begins
BOMB_BYTES, MAX_RATIO = 1 << 26, 200  # of what is unpacked, to what is packed
# In a JSON text, a string, or a word for a number that Python alone takes
BARE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(-?Infinity|NaN)', re.DOTALL)
MAX_LINKS = 40  # from one to the next, as Linux has it
DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd")
# What a model folder is read from, of any form
MODEL_FILE = re.compile(
    r"(bert_config|config|task|vocab|modules|tokenizer|tokenizer_config"
    r"|special_tokens_map|added_tokens)\.json|(vocab|merges)\.txt|checkpoint"
    r"|.*\.ckpt\b.*|.*\.safetensors(\.index\.json)?"
)
_kept_streams: dict[str, str] = {}  # copies of what pipes held, by name
_JSON = json.JSONDecoder(parse_constant=int)  # which refuses NaN and Infinity


def beside(path: str, names: Iterable[str]) -> str | None:
    """The first of these files in the folder that `path` is, or lies in."""
    folder = path if is_dir(path) else os.path.dirname(path)
    for candidate in (os.path.join(folder, name) for name in names):
        if exists(candidate):
            refuse_stream(candidate)
            return candidate
        refuse_hidden(candidate)
    return None


def refuse_stream(path: str) -> None:
    """Raises an InputError for a device or a pipe, which may never end, or
    never begin."""
    if is_stream(path):
        raise InputError(f"{path} is a device or a pipe; expected a file")


def refuse_hidden(path: str) -> None:
    """Raises an InputError if the system does not say whether there is such a
    local file, as in a folder that this user may not enter; TensorFlow takes it
    not to exist."""
    if "://" not in path:
        with (
            reading(path),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
        ):
            os.stat(path)


def is_dir(path: str) -> bool:
    """Whether a folder is there, also on gs:// and the like. TensorFlow says no
    where the network fails, and a run would begin anew; this raises."""
    if "://" not in path:
        return os.path.isdir(path)
    with reading(path):
        try:
            return bool(tf.io.gfile.stat(path).is_directory)
        except tf.errors.NotFoundError:
            return False


def exists(path: str) -> bool:
    """Whether a file or a folder is there, also on gs:// and the like.

    Raises:
        InputError: it cannot be asked.
    """
    with reading(path):
        return bool(tf.io.gfile.exists(path))


def names_in(folder: str) -> list[str]:
    """The names of what is in a folder, also on gs:// and the like; of a local
    one in any encoding, which TensorFlow cannot give."""
    if "://" not in folder:
        return os.listdir(folder)
    return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]


def copy_beside(path: str, names: Iterable[str], folder: str) -> None:
    """Copies those of these files that are in the folder that `path` is, or
    lies in; their names may have folders in them."""
    for name in names:
        if found := beside(path, [name]):
            copy = os.path.join(folder, name)
            tf.io.gfile.makedirs(os.path.dirname(copy))
            copy_whole(found, copy)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns an error of the block, which reads a file, into an InputError."""
    try:
        yield
    except tf.errors.OpError as error:
        message = " ".join(error.message.split())
        raise InputError(f"cannot read {path}: {message}") from error
    # the last: of a name with half a surrogate pair
    except (OSError, EOFError, zlib.error, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from error


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[Any]:
    """The bytes of a file, also on gs:// and the like; a .gz is unpacked.

    Raises:
        InputError: it cannot be opened, or the block cannot read on.
    """
    with reading(path):
        raw = _Remote(path) if "://" in path else io.FileIO(path)
        with io.BufferedReader(raw, 1 << 20) as file:
            if path.endswith(".gz"):
                _refuse_bomb(path, file)
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked
            else:
                yield file


def _refuse_bomb(path: str, file: IO[bytes]) -> None:
    """Raises an InputError for a .gz that would fill the memory, or the disk:
    its last 4 bytes say to what size it unpacks, modulo 4 GiB."""
    is_packed = file.read(2) == GZIP
    packed = file.seek(0, os.SEEK_END)
    file.seek(max(0, packed - 4))
    size = int.from_bytes(file.read(4), "little")
    file.seek(0)
    if is_packed and size > max(BOMB_BYTES, MAX_RATIO * packed):
        raise InputError(
            f"{path} has {packed:,} bytes and unpacks to {size:,}, which no "
            "text does; unpack it if it is right"
        )


class _Remote(io.RawIOBase):
    """A GFile as Python reads files. TensorFlow's own lines end without a word
    where the network fails, as if the file ended there."""

    def __init__(self, path: str):
        self.size = tf.io.gfile.stat(path).length
        self.file = tf.io.gfile.GFile(path, "rb")
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = (0, self.position, self.size)[whence] + offset
        if self.position < self.size:  # a GFile knows no place behind its end
            self.file.seek(self.position)
        return self.position

    def readinto(self, buffer: Any) -> int:
        if self.position >= self.size:
            return 0
        found: bytes = self.file.read(len(buffer))
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)


def content(path: str) -> bytes | None:
    """The bytes of a file, also on gs:// and the like; None without the file.

    Raises:
        InputError: the file exists and cannot be read.
    """
    with reading(path):
        if not tf.io.gfile.exists(path):
            return None
        path = seekable(path)
        refuse_large(path)
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()


def refuse_large(path: str) -> None:
    """Raises an InputError for a file that is read whole and would fill the
    memory, as one that is empty space may."""
    size = tf.io.gfile.stat(path).length
    if size > MAX_CONTENT:
        raise InputError(
            f"{path} has {size >> 30} GiB; expected {MAX_CONTENT >> 30} at most"
        )


def json_beside(path: str, name: str) -> dict[str, Any]:
    """The object in a JSON file of the folder that `path` is, or lies in;
    empty without such a file.

    Raises:
        InputError: the file exists and does not hold one JSON object.
    """
    file = beside(path, [name])
    return {} if file is None else read_json(file)


def read_json(path: str, advice: str = "expected one object") -> dict[str, Any]:
    """Reads the object in a JSON file, also on gs:// and the like.

    Args:
        advice: what to do about a damaged file; ends the error's sentence.

    Raises:
        InputError: the file cannot be read, or does not hold one JSON object.
    """
    text = content(path) or b""
    try:
        values = parse_json(text)
        if not isinstance(values, dict):
            raise ValueError("it holds no object")
        return values
    except ValueError as error:
        raise InputError(
            f"{path} is not a JSON file ({error}); {advice}"
        ) from error


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text. Where an object has a name twice, the last
    counts, as for all common readers.

    Raises:
        ValueError: it is not JSON, to which NaN and Infinity do not belong; or
            too deep, or with too long a number, to be read.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        return _JSON.decode(text)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    except ValueError as error:
        found = next((x for x in BARE.finditer(text) if x[1]), None)
        if found is None:
            raise ValueError("it has a number of too many digits") from error
        raise json.JSONDecodeError(
            f"{found[1]} is not a number in JSON", text, found.start()
        ) from error


def tsv_field(text: str) -> str:
    """A cell of a table with tabs: control characters and a backslash are
    escaped."""
    return text.translate(TSV_ESCAPES)


def to_json(values: Any, **form: Any) -> str:
    """JSON text; of numbers that are not finite, which JSON has not, null.

    Args:
        form: what else json.dumps is given.
    """
    try:
        return json.dumps(values, allow_nan=False, **form)
    except ValueError:
        loose = json.dumps(values)
        values = json.loads(loose, parse_constant=lambda name: None)
        return json.dumps(values, **form)


def temporary_folder() -> str:
    """A new one, which goes when the process ends, unless it is killed."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def atomic(path: str, overwrite: bool = False) -> Iterator[str]:
    """Yields a fresh name beside `path`. What the block writes there, a file or
    a folder, becomes `path` when the block ends, or goes if it fails.

    Args:
        path: also on gs:// and the like; its folder has to be there. A link is
            replaced, and what it leads to stays: see `behind_links`.
        overwrite: whether a file of this name may be replaced.
    """
    unfinished = _fresh_name(path)
    mode, is_kept = None, False
    if overwrite and "://" not in path and _is_file(path):
        refuse_protected(path)
        # Nobody is to read the new one who may not read the old one.
        mode = stat.S_IMODE(os.stat(path).st_mode)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL, 0o600))
        os.chmod(unfinished, mode | stat.S_IWUSR)
    try:
        yield unfinished
        if mode is not None:
            os.chmod(unfinished, mode)
        try:
            tf.io.gfile.rename(unfinished, path, overwrite=overwrite)
        except tf.errors.OpError:
            if not is_mounted(path):
                raise
            is_kept = True  # unless all of it is copied
            shutil.copyfile(unfinished, path)
            is_kept = False
    finally:
        if not is_kept:
            with contextlib.suppress(OSError, tf.errors.OpError, InputError):
                remove(unfinished)


def refuse_protected(path: str) -> None:
    """Raises a PermissionError for a local file that is not to be written."""
    if _is_file(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected", path)


def is_mounted(path: str) -> bool:
    """Whether a file is mounted of itself, as containers do: it can be written
    but not replaced."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            places = [line.split(" ")[4] for line in file]
    except OSError:  # not on Linux
        return False
    place = re.sub(r"[ \t\n\\]", lambda x: f"\\{ord(x[0]):03o}", path)
    return os.path.realpath(place) in places


def behind_links(path: str, argument: str) -> str:
    """What a link leads to, for outputs that a person names by `argument`; else
    the path, as of those in output_dir, whose names are a command's own."""
    is_named = argument != "output_dir" and "://" not in path
    return os.path.realpath(path) if is_named and os.path.islink(path) else path


def has_other_names(path: str) -> bool:
    """Whether a local file is a link, or has more than one hard link."""
    if "://" in path or not os.path.lexists(path):
        return False
    return os.path.islink(path) or os.lstat(path).st_nlink > 1


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _fresh_name(path: str) -> str:
    """A name beside `path`. Random, so that it is nobody else's: not another
    process's, no link; and not longer than a name may be."""
    folder, name = os.path.split(path.rstrip("/"))
    fresh = f".{name[:50]}.{secrets.token_hex(4)}.incomplete"
    return os.path.join(folder, fresh)


def try_to_write(path: str) -> None:
    """Writes nothing under a fresh name beside `path`, and removes it."""
    unfinished = _fresh_name(path)
    try:
        with tf.io.gfile.GFile(unfinished, "wb") as file:
            file.write(b"")
    finally:
        remove(unfinished)


def is_stream(path: str) -> bool:
    """Whether there is a device, a pipe or the like, which nothing replaces."""
    if "://" in path or not os.path.exists(path):
        return False
    return not (os.path.isfile(path) or os.path.isdir(path))


def is_written_through(path: str) -> bool:
    """Whether what is written there goes somewhere that nothing may replace: a
    device, a pipe, or a file that is open already, such as /dev/stdout."""
    if is_stream(path):
        return True
    for _ in range(MAX_LINKS):
        if "://" in path or not os.path.islink(path):
            break
        folder = os.path.realpath(os.path.dirname(path))
        if DESCRIPTORS.fullmatch(folder):
            return True
        path = os.path.join(folder, os.readlink(path))
    return False


def seekable(path: str) -> str:
    """The path itself; of a pipe that of a copy, which can be read again.

    Raises:
        InputError: it cannot be read, or is a device, which may have no end.
    """
    if not is_stream(path):
        return path
    is_device = not stat.S_ISFIFO(os.stat(path).st_mode)
    if is_device and not os.path.samefile(path, os.devnull):
        with reading(path), open(path, "rb") as file:
            if not file.isatty():
                raise InputError(f"{path} is a device; expected a file")
    if path not in _kept_streams:
        copy = os.path.join(temporary_folder(), os.path.basename(path))
        with (
            reading(path),
            open(path, "rb") as source,
            open(copy, "wb") as file,
        ):
            shutil.copyfileobj(source, file)
        _kept_streams[path] = copy
    return _kept_streams[path]


def forget_streams() -> None:
    """A pipe of the same name is another one from here on."""
    _kept_streams.clear()


def refuse_inputs(
    argument: str,
    path: str,
    names: Collection[str] = (),
    **inputs: Iterable[str],
) -> None:
    """Raises an InputError where `path`, which is about to be written, is one
    of the files that are read.

    Args:
        argument: that names `path`, for the sentence.
        names: of the files to be written, where `path` is their folder.
        inputs: paths by the argument that names them.
    """
    outputs = [os.path.join(path, each) for each in names] or [path]
    kind = "folder" if names else "file"
    for name, paths in inputs.items():
        for read, written in itertools.product(paths, outputs):
            is_same = read == written
            if os.path.exists(written) and os.path.exists(read):
                is_same = os.path.samefile(read, written)
            if is_same and not is_stream(written):
                raise InputError(
                    f"`{argument}={path}` would overwrite `{name}={read}`, "
                    f"which is read; name another {kind}"
                )


def refuse_model_file(argument: str, path: str, model: str) -> None:
    """Raises an InputError where `path`, which is about to be written, is a
    file that a model is read from.

    Args:
        argument: that names `path`, for the sentence.
        model: a model folder, or weights in one.
    """
    folder = model if is_dir(model) else os.path.dirname(model)
    place, name = os.path.split(path)
    if "://" not in path:
        folder = os.path.realpath(folder)
        place, name = os.path.split(os.path.realpath(path))
    if place == folder and MODEL_FILE.fullmatch(name):
        raise InputError(
            f"`{argument}={path}` would overwrite a file of the model in "
            f"{model}, which is read; name another file"
        )


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it, if it is there. Of a
    link, only the link goes."""
    if "://" not in path:
        # gfile.rmtree would also empty folders that links lead to.
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
        return
    if is_dir(path):
        tf.io.gfile.rmtree(path)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


@contextlib.contextmanager
def new_folder(output_dir: str) -> Iterator[str]:
    """A folder that becomes `output_dir` at the end, if nothing fails."""
    if not output_dir:
        raise InputError("`output_dir=` is empty; name a new folder")
    if "://" not in output_dir:  # "a/../b", "a/." and "/" are other names
        output_dir = os.path.realpath(output_dir)
    output_dir = output_dir.rstrip("/") or "/"
    is_there = InputError(
        f"`output_dir={output_dir}` exists already; name a new folder"
    )
    try:
        if tf.io.gfile.exists(output_dir):
            raise is_there
        with atomic(output_dir) as folder:
            try:
                tf.io.gfile.makedirs(folder)
            except tf.errors.OpError as error:  # may name a parent alone
                raise _unwritable(output_dir, "output_dir", error) from error
            yield folder
    except tf.errors.AlreadyExistsError as error:  # made by another process
        raise is_there from error
    except tf.errors.OpError as error:
        folder, name = os.path.split(output_dir)
        own = f"{re.escape(name)}\\b|\\.{re.escape(name[:50])}\\..*incomplete"
        names = f"{re.escape(os.path.join(folder, ''))}({own})"
        if not re.search(names, error.message):
            raise  # of what is read
        raise _unwritable(output_dir, "output_dir", error) from error


def is_byte_level(vocab_file: str) -> bool:
    """Whether it is a vocab.json, by any name, with a merges.txt beside it."""
    return vocab_file.endswith(".json")


def vocabulary_files(vocab_file: str) -> dict[str, str]:
    """The path of each of its files, by its usual name; `vocab_file` first."""
    if not is_byte_level(vocab_file):
        return {VOCABULARY: vocab_file}
    merges = os.path.join(os.path.dirname(vocab_file), MERGES)
    return {BYTE_LEVEL: vocab_file, MERGES: merges}


def vocabulary_contents(vocab_file: str) -> dict[str, bytes]:
    """The bytes of each of its files, by its usual name; `vocab_file` first."""
    return {
        name: content(path) or b""
        for name, path in vocabulary_files(vocab_file).items()
    }


def copy_vocabulary(vocab_file: str, folder: str) -> str:
    """Copies it, from or to gs:// and the like too; returns the copy's path."""
    return [
        copy_whole(path, os.path.join(folder, name))
        for name, path in vocabulary_files(vocab_file).items()
    ][0]


def local(path: str, is_vocabulary: bool = False) -> str:
    """The path itself, or that of a copy of what lies on gs:// and the like or
    comes from a pipe."""
    if "://" not in path and not is_stream(path):
        return path
    with reading(path):
        folder = temporary_folder()
        if is_vocabulary:
            return copy_vocabulary(path, folder)
        return copy_whole(path, os.path.join(folder, os.path.basename(path)))


def copy_whole(source: str, path: str) -> str:
    """Copies a file, which may be itself; returns `path`."""
    with tf.io.gfile.GFile(seekable(source), "rb") as file:
        content = file.read()
    return write_whole(path, content)


def write_json(path: str, values: Mapping[str, Any]) -> None:
    write_whole(path, (to_json(values, indent=2) + "\n").encode())


def write_whole(path: str, content: bytes) -> str:
    """Writes a file that appears under its name only when it is complete, even
    if the power is cut; returns `path`."""
    with atomic(path, overwrite=True) as unfinished:
        with tf.io.gfile.GFile(unfinished, "wb") as file:
            file.write(content)
        if "://" not in path:
            with open(unfinished, "rb") as written:
                os.fsync(written.fileno())
    return path


@contextlib.contextmanager
def writing(path: str, argument: str) -> Iterator[IO[bytes]]:
    """A file that appears whole, when the block ends, or not at all; a name
    that ends in .gz means GZIP.

    A device or a pipe is written through, and so is a link, but not one in
    output_dir, which is replaced.

    Args:
        path: also on gs:// and the like.
        argument: that names it, for errors.

    Raises:
        InputError: it cannot be written, or is being written already.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder, name = os.path.split(path)
            if not name or is_dir(path):
                raise IsADirectoryError(None, "it is a folder")
            is_local = "://" not in path
            if is_local:
                with contextlib.suppress(FileNotFoundError):
                    os.lstat(path)  # the name may be too long
            target = path
            # What others write to the same device or open file stays.
            mode = "ab"
            if not is_written_through(path):
                tf.io.gfile.makedirs(folder or ".")
                if is_local:
                    stack.enter_context(_only_writer(path, argument))
                new = atomic(behind_links(path, argument), overwrite=True)
                target, mode = stack.enter_context(new), "wb"
            opener = open if is_local else tf.io.gfile.GFile
            file = opener(target, mode)
        except (OSError, tf.errors.OpError) as error:
            raise _unwritable(path, argument, error) from error
        try:
            with contextlib.ExitStack() as opened:
                opened.enter_context(file)
                if path.endswith(".gz") and mode == "wb":
                    file = gzip.GzipFile("", mode, fileobj=file, mtime=0)
                    opened.enter_context(file)
                yield file
            stack.close()
        except OSError as error:  # the block's own work raises no such thing
            raise _unwritable(path, argument, error) from error


@contextlib.contextmanager
def _only_writer(path: str, argument: str) -> Iterator[None]:
    """Keeps a local file that is about to be written for this process."""
    folder, name = os.path.split(behind_links(path, argument))
    folder = os.path.realpath(folder)
    number = zlib.crc32(os.fsencode(name))
    held = os.path.join(folder, f".{name[:50]}.{number:08x}.lock")
    fault = (
        f"`{argument}={path}` is being written already; wait for its end, or "
        "name another file"
    )
    with kept(held, fault):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if not os.path.getsize(held):  # or else it is not ours
                    os.remove(held)


def _unwritable(path: str, argument: str, error: Any) -> InputError:
    reason = getattr(error, "message", "") or getattr(error, "strerror", "")
    return InputError(f"cannot write `{argument}={path}`: {reason}")


def fingerprint(path: str) -> str:
    """Identifies the contents of a file, wherever it lies.

    It is made of the size and of the first and last MiB.
    """
    size = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, "rb") as file:
        crc = zlib.crc32(file.read(END_BYTES))
        if size > END_BYTES:
            file.seek(max(END_BYTES, size - END_BYTES))
            crc = zlib.crc32(file.read(END_BYTES), crc)
    return f"{size} bytes, checksum {crc:08x}"


def are_same(one: str, other: str) -> bool:
    """Whether two names lead to one file."""
    if "://" in one + other:
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)


def identities(paths: Sequence[str], most: int = DIGEST_BYTES) -> list[str]:
    """Identifies the contents of each file, more surely than `fingerprint`.

    The digest after the fingerprint is of all bytes if the files together have
    `most` at the most; else of blocks at equal distances, together as many.
    Files on gs:// and the like, where that takes too long, have none.
    """
    if any("://" in path for path in paths):
        return [*map(fingerprint, paths)]
    sizes = [*map(os.path.getsize, paths)]
    step = max(BLOCK_BYTES, sum(sizes) * BLOCK_BYTES // most)
    found = []
    for path, size in zip(paths, sizes, strict=True):
        digest = hashlib.blake2b(digest_size=8)
        with open(path, "rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                digest.update(file.read(BLOCK_BYTES))
        found.append(f"{fingerprint(path)}, digest {digest.hexdigest()}")
    return found


def versions(paths: Sequence[str]) -> list[tuple[str, int | None]]:
    """What identifies the contents of each file and, where not all bytes are
    read for that, when it was last written, in nanoseconds."""
    found = [tf.io.gfile.stat(path) for path in paths]
    is_remote = any("://" in path for path in paths)
    is_large = sum(each.length for each in found) > DIGEST_BYTES
    times = [
        each.mtime_nsec if is_large or is_remote else None for each in found
    ]
    return [*zip(identities(paths), times, strict=True)]

"""Record files without the records that cannot be used.

A damaged file is copied without them, once, before the first step; so the order
of the records stays a function of files and seed, and a run that goes on has
nothing to look for again.
"""

import contextlib
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.data import tfrecord_codec
from bert_keras.data.record_schema import Feature
from bert_keras.data.tfrecords import RecordWriter
from bert_keras.data.validate_records import Found, decode, find_fault, kind_of
from bert_keras.errors import InputError, with_flags
from bert_keras.files import fingerprint

REPORT = "left_out.json"  # by file: its copy, and what is not in it
MAX_NAMED = 10  # records of a file


def first_known(paths: Sequence[str]) -> Found:
    """The features of the first record that is one of pre-training.

    Raises:
      InputError: there is none.
    """
    for path in paths:
        for record in filter(None, _read(path, [])):
            with contextlib.suppress(InputError):
                found = decode(record, path, 0)
                if kind_of(found):
                    return found
    raise InputError(f"{', '.join(paths)}: no record of pre-training in them")


class CleanRecords:
    """Of files, those that have these features; the copies are in `folder`."""

    def __init__(
        self, features: Sequence[Feature], vocab_size: int, folder: str
    ):
        self.features = features
        self.vocab_size = vocab_size
        self.folder = folder
        kind = repr((tuple(features), vocab_size))
        self.kind = zlib.crc32(kind.encode())  # that the report is of

    def are_made(self, paths: Sequence[str]) -> bool:
        """Whether `make` has nothing to do."""
        report = _read_report(self.folder)
        return all(self._is_known(path, report) for path in paths)

    def make(self, paths: Sequence[str]) -> None:
        """Reads everything, and copies what is damaged; says what was left
        out. Does nothing where it has been done for these files."""
        if self.are_made(paths):
            return
        report = _read_report(self.folder)
        for path in paths:
            if not self._is_known(path, report):
                report[path] = self._look_at(path)
        _write_report(self.folder, report)

    def files(self, paths: Sequence[str]) -> list[str]:
        """What to read instead of `paths`, after `make`.

        Raises:
          InputError: none of their records can be used.
        """
        report = _read_report(self.folder)
        counts = [report[path]["count"] for path in paths]
        if any(counts):
            print(
                f"{sum(counts)} records in {sum(map(bool, counts))} files "
                "cannot be used and are left out (a file that ends too early "
                f"counts as one): {os.path.join(self.folder, REPORT)}"
            )
        found = []
        for path in paths:
            copy = report[path]["copy"]
            if copy != "":
                found.append(os.path.join(self.folder, copy) if copy else path)
        if not found:
            raise InputError(
                f"{', '.join(paths)}: no record in them can be used"
            )
        return found

    def _look_at(self, path: str) -> dict[str, Any]:
        """What the report says of the file, which is copied if it has to be."""
        faults: list[str] = []
        for _ in self._sound(path, faults):
            pass
        found: dict[str, Any] = {
            "copy": None,
            "count": len(faults),
            "contents": fingerprint(path),
            "kind": self.kind,
        }
        if not faults:
            return found
        for fault in faults[:MAX_NAMED]:
            print(with_flags(f"left out: {fault}"), file=sys.stderr)
        number = zlib.crc32(path.encode(), self.kind)
        name = f"{number:08x}-{os.path.basename(path)}"
        copy = os.path.join(self.folder, name)
        with RecordWriter([copy], "output_dir") as writer:
            for record in self._sound(path, []):
                writer.write(record)
            has_any = writer.num_records > 0
        return {**found, "copy": name if has_any else "", "first": faults[:99]}

    def _sound(self, path: str, faults: list[str]) -> Iterator[bytes]:
        """The records that can be used; `faults` gets a sentence for any
        other."""
        for number, record in enumerate(_read(path, faults), 1):
            if record is None:
                continue
            try:
                found = decode(record, path, number)
                fault = find_fault(self.features, found, self.vocab_size)
                if fault is None:
                    yield record
                else:
                    faults.append(f"{path}, record {number}: {fault}")
            except InputError as error:
                faults.append(str(error))

    def _is_known(self, path: str, report: dict[str, Any]) -> bool:
        """Whether the report is of that file, as it is now, and its copy is
        there."""
        found = report.get(path, {})
        now = {"contents": fingerprint(path), "kind": self.kind}
        return now.items() <= found.items() and (
            not found["copy"]
            or tf.io.gfile.exists(os.path.join(self.folder, found["copy"]))
        )


def _read(path: str, faults: list[str]) -> Iterator[bytes | None]:
    """All records that are whole; None for one that is damaged."""
    number = 0
    with tf.io.gfile.GFile(path, "rb") as file:
        reader: Any = gzip.GzipFile(fileobj=file) if _is_packed(path) else file
        while True:
            number += 1
            try:
                record = tfrecord_codec.read_frame(reader.read)
            except tfrecord_codec.ChecksumError:
                faults.append(f"{path}, record {number} is damaged")
                yield None
                continue
            except (tfrecord_codec.FrameError, EOFError, OSError, zlib.error):
                faults.append(
                    f"{path}: record {number} and what follows cannot be read"
                )
                return
            if record is None:
                return
            yield record


def _is_packed(path: str) -> bool:
    return path.endswith(".gz")


def _read_report(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, REPORT)
    if not tf.io.gfile.exists(path):
        return {}
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return dict(json.loads(file.read()))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}, which says what was left out of damaged files, is "
            f"damaged itself; remove {folder}, and it is made anew"
        ) from error


def _write_report(folder: str, report: dict[str, Any]) -> None:
    tf.io.gfile.makedirs(folder)
    path = os.path.join(folder, REPORT)
    with tf.io.gfile.GFile(path + ".tmp", "w") as file:
        file.write(json.dumps(report, indent=2) + "\n")
    tf.io.gfile.rename(path + ".tmp", path, overwrite=True)

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

from data import wire
from data.record_checks import Found, decode, find_fault, kind_of
from data.record_features import Feature
from data.records import RecordWriter
from input_error import InputError

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


def is_made(paths: Sequence[str], folder: str) -> bool:
    """Whether `make_sound` has nothing to do."""
    report = _read_report(folder)
    return all(_is_known(path, report) for path in paths)


def make_sound(
    paths: Sequence[str],
    features: Sequence[Feature],
    vocab_size: int,
    folder: str,
) -> None:
    """Reads everything, and copies to `folder` what is damaged; says what was
    left out. Does nothing where it has been done for these files."""
    if is_made(paths, folder):
        return
    report = _read_report(folder)
    for path in paths:
        if _is_known(path, report):
            continue
        faults: list[str] = []
        for _ in _sound(path, features, vocab_size, faults):
            pass
        size = tf.io.gfile.stat(path).length
        report[path] = {"copy": None, "count": len(faults), "bytes": size}
        if not faults:
            continue
        for fault in faults[:MAX_NAMED]:
            print(f"left out: {fault}", file=sys.stderr)
        name = f"{zlib.crc32(path.encode()):08x}-{os.path.basename(path)}"
        copy = os.path.join(folder, name)
        with RecordWriter([copy], "--output_dir") as writer:
            for record in _sound(path, features, vocab_size, []):
                writer.write(record)
            has_any = writer.num_records > 0
        report[path] |= {"copy": copy if has_any else "", "first": faults[:99]}
    _write_report(folder, report)


def sound_files(paths: Sequence[str], folder: str) -> list[str]:
    """What to read instead of `paths`, after `make_sound`.

    Raises:
      InputError: none of their records can be used.
    """
    report = _read_report(folder)
    counts = [report[path]["count"] for path in paths]
    if any(counts):
        print(
            f"{sum(counts)} records in {sum(map(bool, counts))} files cannot "
            f"be used and are left out (a file that ends too early counts as "
            f"one): {os.path.join(folder, REPORT)}"
        )
    copies = [report[path]["copy"] for path in paths]
    found = [p if c is None else c for p, c in zip(paths, copies, strict=True)]
    if not any(found):
        raise InputError(f"{', '.join(paths)}: no record in them can be used")
    return [path for path in found if path]


def _sound(
    path: str, features: Sequence[Feature], vocab_size: int, faults: list[str]
) -> Iterator[bytes]:
    """The records that can be used; `faults` gets a sentence for any other."""
    for number, record in enumerate(_read(path, faults), 1):
        if record is None:
            continue
        try:
            found = decode(record, path, number)
            fault = find_fault(features, found, vocab_size)
            if fault is None:
                yield record
            else:
                faults.append(f"{path}, record {number}: {fault}")
        except InputError as error:
            faults.append(str(error))


def _read(path: str, faults: list[str]) -> Iterator[bytes | None]:
    """All records that are whole; None for one that is damaged."""
    number = 0
    with tf.io.gfile.GFile(path, "rb") as file:
        reader: Any = gzip.GzipFile(fileobj=file) if _is_packed(path) else file
        while True:
            number += 1
            try:
                record = wire.read_frame(reader.read)
            except wire.ChecksumError:
                faults.append(f"{path}, record {number} is damaged")
                yield None
                continue
            except (wire.FrameError, EOFError, OSError, zlib.error):
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


def _is_known(path: str, report: dict[str, Any]) -> bool:
    """Whether the report is of that file, as it is now."""
    size = tf.io.gfile.stat(path).length
    return path in report and report[path].get("bytes") == size


def _write_report(folder: str, report: dict[str, Any]) -> None:
    tf.io.gfile.makedirs(folder)
    path = os.path.join(folder, REPORT)
    with tf.io.gfile.GFile(path + ".tmp", "w") as file:
        file.write(json.dumps(report, indent=2) + "\n")
    tf.io.gfile.rename(path + ".tmp", path, overwrite=True)

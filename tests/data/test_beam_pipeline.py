"""Beam's DirectRunner makes the very records of this machine's own workers.

What needs the extra "beam" is skipped without it.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.tfrecords import read_records
from tests.conftest import GOLDEN, fails_with, run, start

VOCAB = GOLDEN / "tiny_vocab.txt"
SCRIPT = "tests/make_small_parts.py"
WORDS = "the sea an old ship zoo café , . and".split()

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="pip install 'apache-beam>=2.77'",
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of 101 and 53 documents, which are several spans and parts."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(2)
    for name, number in (("a.txt", 101), ("b.txt", 53)):
        documents = [
            "\n".join(
                " ".join(rng.choice(WORDS, rng.integers(1, 13)))
                for _ in range(rng.integers(1, 11))
            )
            for _ in range(number)
        ]
        (folder / name).write_text("\n\n".join(documents), "utf-8")
    return folder


def flags(text: Path, output_file: Path) -> list[str]:
    return [
        f"--input_file={text}/*.txt",
        f"--vocab_file={VOCAB}",
        f"--output_file={output_file}",
        "--max_seq_length=23",
        "--max_predictions_per_seq=5",
        "--dupe_factor=3",
    ]


OF_BYTES = f"--vocab_file={GOLDEN}/byte_level/vocab.json"


@needs_beam
@pytest.mark.parametrize(
    "extra", [[], [OF_BYTES, "--sequence_format=full_sentences"]]
)
def test_direct_runner_makes_the_records_of_the_workers(
    text: Path, tmp_path: Path, extra: list[str]
) -> None:
    one = [*flags(text, tmp_path / "one"), *extra]
    expected = run(SCRIPT, *one, "--num_workers=1")
    given = [*flags(text, tmp_path / "many"), *extra, "--runner=DirectRunner"]
    output = run(SCRIPT, *given, "--", "--direct_num_workers=1")
    assert output == expected
    assert "154" in output.splitlines()[0]
    found = sorted(tmp_path.glob("many*"))
    assert len(found) > 5
    assert [path.name for path in found] == [
        f"many-{i:05}-of-{len(found):05}" for i in range(len(found))
    ]
    records = [r for path in found for r in read_records(str(path))]
    mixed = list(read_records(str(tmp_path / "one")))
    assert sorted(records) == sorted(mixed)
    refusal = fails_with(SCRIPT, *given)
    assert f"{found[0]} exists already" in refusal


def last_line(*args: str) -> str:
    """Of a command that fails; before it Beam logs where that was."""
    process = start(SCRIPT, *args)
    _, errors = process.communicate()
    assert process.returncode == 1
    return errors.strip().splitlines()[-1]


@needs_beam
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"the sea\n\nan old ship\n\nthe \xff\n",
            "a.txt, line 5 is not UTF-8 text: byte 0xff at column 5",
        ),
        (b" \n", "a.txt is empty: it has no text"),
    ],
)
def test_a_workers_error_ends_in_its_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    given = [*flags(tmp_path, tmp_path / "records"), "--runner=DirectRunner"]
    expected = f"make_small_parts.py: {tmp_path}/{sentence}"
    assert last_line(*given) == expected


@needs_beam
def test_refuses_what_beam_or_the_files_cannot_do(
    text: Path, tmp_path: Path
) -> None:
    given = flags(text, tmp_path / "records")
    assert "--runner=SeaRunner: " in fails_with(
        SCRIPT, *given, "--runner=SeaRunner"
    )
    several = flags(text, tmp_path / "a,b")
    assert "--output_file with --runner is one name" in fails_with(
        SCRIPT, *several, "--runner=DirectRunner"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--", "--project=sea"], "unexpected argument '--project=sea'"),
        (["--runner=x", "--sampler=google"], "--sampler=google has no"),
        (["--runner=x", "--num_workers=2"], "--num_workers is not for"),
    ],
)
def test_refuses_flags_that_do_not_go_together(
    text: Path, tmp_path: Path, given: list[str], sentence: str
) -> None:
    assert sentence in fails_with(SCRIPT, *flags(text, tmp_path / "a"), *given)


@pytest.mark.slow
def test_says_what_to_install(text: Path, tmp_path: Path) -> None:
    (tmp_path / "apache_beam.py").write_text("raise ImportError('no sea')")
    sentence = fails_with(
        SCRIPT,
        *flags(text, tmp_path / "a"),
        "--runner=DirectRunner",
        PYTHONPATH=str(tmp_path),
    )
    assert "--runner=DirectRunner needs Apache Beam (no sea); pip" in sentence

"""Tests of tasks/pretraining/data.py and training.py: from text to a trained
model in Python, as the commands do it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import bert_keras
from bert_keras.data import validate_records
from bert_keras.data.corpus import TextFormat
from bert_keras.data.input_pipeline import RecordBatches
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.masking import MaskConfig
from bert_keras.data.record_dataset import record_dataset
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.tfrecords import parse_batch
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.data.tokenizers import TokenizerSettings
from bert_keras.data.validate_records import read_first, table_of
from bert_keras.errors import InputError, say_once
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.tasks.pretraining import data, training
from bert_keras.tasks.pretraining.config import RecordsConfig, VocabularyConfig
from bert_keras.tasks.pretraining.task import PretrainingConfig
from bert_keras.tasks.run_context import RunConfig
from bert_keras.training.config import (
    Budget,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from tests.conftest import GOLDEN, ROOT, fails_with, forked
from tests.tasks.test_fine_tuning_run import (
    NOT_IN_PYTHON,
    assert_same_weights,
    check_settings,
    defaults_of,
)

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

CORPUS = GOLDEN / "tiny_corpus.txt"
VOCAB = str(GOLDEN / "tiny_vocab.txt")
LENGTHS: dict[str, Any] = {"max_seq_length": 32, "max_predictions_per_seq": 5}
SHORT: dict[str, Any] = {
    **LENGTHS, "train_batch_size": 4, "num_train_steps": 4,
    "num_warmup_steps": 1, "learning_rate": 1e-3, "seed": 3,
    "init_checkpoint": str(GOLDEN / "tiny_bert"), "vocab_file": VOCAB,
}  # fmt: skip
FEATURES = pretraining_features(32, 5)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "made.tfrecord"
    bert_keras.make_records(CORPUS, path, VOCAB, num_workers=1, **LENGTHS)
    return path


def examples(records: Path, seed: int | None = 5) -> tf.data.Dataset:
    """The records as somebody's own pipeline."""
    return (
        tf.data.TFRecordDataset(str(records))
        .batch(8)
        .map(lambda rows: parse_batch(FEATURES, rows))
        .unbatch()
        .shuffle(50, seed=seed)
    )


def test_settings_are_the_commands() -> None:
    check_settings(
        data.VOCABULARY_SETTINGS,
        "build_vocab",
        {"input_file", "output_file", "do_lower"},
        defaults_of(VocabularyConfig, TextFormat),
    )
    check_settings(
        data.RECORD_SETTINGS,
        "create_pretraining_data",
        {"input_file", "output_file", "vocab_file", "do_lower", "runner"},
        defaults_of(
            InstanceConfig, TextFormat, TokenizerOptions, RecordsConfig
        ),
    )
    check_settings(
        training.SETTINGS,
        "run_pretraining",
        (NOT_IN_PYTHON - {"eval_batch_size"}) | {"input_file"},
        defaults_of(
            PretrainingConfig, MaskConfig, StudentConfig, DistilBertLoss,
            RunConfig, OptimizerConfig, LoopConfig, ModelSelection, Budget,
            TokenizerOptions,
        ),
    )  # fmt: skip


def test_a_vocabulary_is_the_command_s(tmp_path: Path) -> None:
    made = tmp_path / "made" / "vocab.txt"
    pieces = bert_keras.build_vocabulary(
        CORPUS, 300, made, num_unused=3, do_lower_case=False
    )
    assert made.read_text().splitlines() == pieces
    forked(
        "build_vocab.py",
        f"--input_file={CORPUS}",
        f"--output_file={tmp_path}/vocab.txt",
        "--vocab_size=300",
        "--num_unused=3",
        "--nodo_lower_case",
    )
    assert (tmp_path / "vocab.txt").read_bytes() == made.read_bytes()
    text: Any
    plain = CORPUS.read_text().splitlines()
    for text in ([CORPUS], plain, str(CORPUS)):
        other = tmp_path / "other.txt"
        bert_keras.build_vocabulary(
            text, 300, other, num_unused=3, do_lower_case=False
        )
        assert other.read_bytes() == made.read_bytes()
    lines = [json.dumps({"text": text}) for text in plain]
    bert_keras.build_vocabulary(
        lines,
        300,
        other,
        num_unused=3,
        do_lower_case=False,
        input_format="jsonl",
    )
    assert other.read_bytes() == made.read_bytes()
    other.unlink()
    for text, sentence in (
        (lines, "text, line 1 looks like JSON"),
        ([str(CORPUS)], "the name of a file"),
        (["none.txt", "the sea"], "text 0 is none.txt, the name of"),
        (["the sea", 3], "text 1 is a int; expected a string"),
        (str(tmp_path / "none"), "no file matches `text="),
        ([], "the text is empty"),
    ):
        with pytest.raises(InputError, match=sentence):
            bert_keras.build_vocabulary(text, 300, other)
    assert not other.exists()


@pytest.mark.parametrize("sampler", ["vectorized", "google"])
def test_records_are_the_command_s(sampler: str, tmp_path: Path) -> None:
    files = [tmp_path / "0.tfrecord", tmp_path / "1.tfrecord.gz"]
    summary = bert_keras.make_records(
        [CORPUS], files, VOCAB, sampler=sampler, dupe_factor=2, **LENGTHS
    )
    assert summary is not None and summary.num_records > 0
    expected = tmp_path / "command"
    expected.mkdir()
    forked(
        "create_pretraining_data.py",
        f"--input_file={CORPUS}",
        f"--output_file={expected}/0.tfrecord,{expected}/1.tfrecord.gz",
        f"--vocab_file={VOCAB}",
        f"--sampler={sampler}",
        "--dupe_factor=2",
        *(f"--{name}={value}" for name, value in LENGTHS.items()),
    )
    for path in files:
        found = [
            tf.data.TFRecordDataset(
                str(each), "GZIP" if path.suffix == ".gz" else ""
            )
            for each in (path, expected / path.name)
        ]
        ours, theirs = (
            [tf.train.Example.FromString(x) for x in each.as_numpy_iterator()]
            for each in found
        )
        assert ours == theirs  # bytes may have the features in another order
    if sampler == "vectorized":
        again = bert_keras.make_records(
            [CORPUS], files, VOCAB, sampler=sampler, dupe_factor=2, **LENGTHS
        )
        assert again is None


def test_records_of_a_remote_text_are_those_of_a_local_one(
    tmp_path: Path,
) -> None:
    remote = "ram://corpus/text.txt"  # in this process's memory
    tf.io.gfile.GFile(remote, "w").write(CORPUS.read_text())
    found = []
    for i, text in enumerate((str(CORPUS), remote)):
        path = tmp_path / f"{i}.tfrecord"
        bert_keras.make_records([text], path, VOCAB, num_workers=1, **LENGTHS)
        found.append(path.read_bytes())
    assert found[0] == found[1]


@pytest.mark.slow
def test_records_are_made_by_a_script_without_a_guard(tmp_path: Path) -> None:
    """Workers are started so that they do not run the script again."""
    text = CORPUS.read_text()
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(text)
    script = tmp_path / "script.py"
    script.write_text(
        "import bert_keras\n"
        "print('once')\n"
        f"made = bert_keras.make_records({str(tmp_path / '*.txt')!r}, "
        f"{str(tmp_path / 'made.tfrecord')!r}, {VOCAB!r}, num_workers=2)\n"
        "print(made.num_documents)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == "once" and int(second) % 3 == 0


def test_records_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    vocab = Path(VOCAB).read_text().splitlines()
    other = tmp_path / "other.txt"
    other.write_text("\n".join(vocab[:5] + vocab[:4:-1]))  # as many tokens
    made = [str(tmp_path / name) for name in ("a", "b")]
    bert_keras.make_records(
        CORPUS, ",".join(made), VOCAB, num_workers=1, **LENGTHS
    )
    check = validate_records.check_vocabulary
    check(made, [VOCAB, str(other)])
    for path in made:
        with pytest.raises(InputError, match=f"{path} was made with another"):
            check([path], [str(other)])
    given = {**SHORT, "vocab_file": str(other), "model_size": "tiny"}
    del given["init_checkpoint"]
    with pytest.raises(InputError, match="a was made with another vocabulary"):
        bert_keras.pretrain(made[0], tmp_path / "run", **given)
    Path(made[0]).write_bytes(b"others, copied here")
    check(made[:1], [str(other)])
    shutil.rmtree(tmp_path / ".a.making")
    check(made, [str(other)])


def test_records_of_another_case_are_refused(tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    bert_keras.make_records(
        CORPUS, made, VOCAB, do_lower_case=True, strip_accents=False, **LENGTHS
    )
    given = {**SHORT, "vocab_file": VOCAB, "model_size": "tiny"}
    del given["init_checkpoint"]
    with pytest.raises(InputError, match="give `strip_accents=False`, or make"):
        bert_keras.pretrain(made, tmp_path / "run", **given)
    check, named = validate_records.check_vocabulary, ([made], [VOCAB])
    check(*named, TokenizerSettings(strip_accents=False))
    check(*named, None)
    with pytest.raises(InputError, match="`do_lower_case=True`, and the model"):
        check(*named, TokenizerSettings(do_lower_case=False))


def test_settings_that_do_not_fit_are_named(tmp_path: Path) -> None:
    output = tmp_path / "made.tfrecord"
    for settings, sentence in (
        (
            {"sampler": "mine"},
            "`sampler=mine` is not one of vectorized, google",
        ),
        (
            {"sampler": "google", "dynamic_masking": True},
            "`sampler=google` has no `dynamic_masking`",
        ),
        (
            {"dynamic_masking": True, "masked_lm_prob": 0.3, "mask_share": 0.9},
            "give `masked_lm_prob` and `mask_share` to run_pretraining.py",
        ),
        ({"max_seq_length": 3}, "`max_seq_length=3` is too small"),
        ({"num_workers": 0}, "`num_workers` is 0; expected at least 1"),
    ):
        with pytest.raises(InputError) as caught:
            bert_keras.make_records(CORPUS, output, VOCAB, **settings)
        assert sentence in str(caught.value)
    with pytest.raises(TypeError, match="make_records has no setting runner"):
        bert_keras.make_records(CORPUS, output, VOCAB, runner="DirectRunner")
    with pytest.raises(InputError, match="`input_file` is a dict; expected"):
        bert_keras.make_records({}, output, VOCAB)
    assert not output.exists()
    said = fails_with(
        "create_pretraining_data.py",
        f"--input_file={CORPUS}",
        f"--output_file={output}",
        f"--vocab_file={VOCAB}",
        "--sampler=google",
        "--dynamic_masking",
    )
    assert "--sampler=google has no --dynamic_masking" in said
    bert_keras.make_records(
        *(CORPUS, output, VOCAB),
        sampler="google",
        dynamic_masking=False,
        input_format="sentences",
    )
    assert output.exists()


@pytest.mark.slow
def test_pretraining_is_the_command_s(records: Path, tmp_path: Path) -> None:
    """A callback hears of steps and evaluations."""
    heard: dict[int, dict[str, float]] = {}
    model = bert_keras.pretrain(
        records,
        tmp_path / "python",
        evaluation=[records],
        general_eval_file=str(records),
        eval_steps=2,
        max_eval_steps=2,
        callback=heard.__setitem__,
        **SHORT,
    )
    for name in ("masked_lm_loss", "masked_lm_accuracy"):
        assert model.metrics[f"general_{name}"] == model.metrics[name]
    assert list(heard) == [1, 2, 3, 4]
    assert [step for step in heard if "eval_loss" in heard[step]] == [2, 4]
    for line in model.history:
        assert line.items() >= heard[int(line["step"])].items()
    assert model.metrics["masked_lm_accuracy"] >= 0
    assert "[MASK]" not in model.fill("the [MASK] saw the sea").text
    assert model.encode("the sea").ndim == 1
    flags = [f"--{name}={value}" for name, value in SHORT.items()]
    forked(
        "run_pretraining.py",
        *flags,
        *("--do_train", "--do_eval", "--eval_steps=2", "--max_eval_steps=2"),
        f"--input_file={records}",
        f"--eval_file={records}",
        f"--general_eval_file={records}",
        f"--output_dir={tmp_path}/command",
    )
    assert_same_weights(tmp_path / "python", tmp_path / "command")
    said = (tmp_path / "command" / "eval_results.txt").read_text()
    for name, value in model.metrics.items():
        assert f"{name} = {value}" in said


@pytest.mark.slow
def test_a_dataset_is_trained_on_and_resumes_to_the_same_bits(
    records: Path, tmp_path: Path
) -> None:
    """Also where it is stopped twice, once by a callback."""
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    given = SHORT | {
        "num_train_steps": 9, "save_checkpoints_steps": 3,
        "max_predictions_per_seq": 20,  # the dataset's holds
    }  # fmt: skip
    del given["max_seq_length"]
    whole = bert_keras.pretrain(examples(records), straight, **given)

    for last in (4, 7):
        with pytest.raises(Stopped):
            bert_keras.pretrain(
                examples(records), cut, callback=stop_after(last), **given
            )
    heard: list[int] = []
    rest = bert_keras.pretrain(
        examples(records),
        cut,
        callback=lambda step, _: heard.append(step),
        **given,
    )
    assert heard == [7, 8, 9]
    assert_same_weights(straight, cut)
    losses = [[line["loss"] for line in x.history] for x in (whole, rest)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_a_callback_hears_of_the_step_at_which_a_signal_stops(
    records: Path, tmp_path: Path
) -> None:
    heard: list[int] = []

    def callback(step: int, metrics: dict[str, float]) -> None:
        heard.append(step)
        if heard == [1]:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit):
        bert_keras.pretrain(records, tmp_path, callback=callback, **SHORT)
    assert heard == [1, 2]  # the signal is noted during step 2
    bert_keras.pretrain(records, tmp_path, callback=callback, **SHORT)
    assert heard == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_dataset_gives_the_same_weights_as_its_records(
    records: Path, tmp_path: Path
) -> None:
    """In the order in which run_pretraining.py reads them."""
    first = bert_keras.pretrain(records, tmp_path / "files", **SHORT)
    batches = list(record_dataset(str(records), 4, seed=3).take(4))
    rows = {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }
    rows["next_sentence_labels"] = rows["next_sentence_labels"][:, 0]
    rows["input_ids"] = rows["input_ids"].astype(np.int64)
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    second = bert_keras.pretrain(dataset, tmp_path / "dataset", **SHORT)
    assert_same_weights(tmp_path / "files", tmp_path / "dataset")
    assert [x["loss"] for x in first.history] == [
        x["loss"] for x in second.history
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["without masks", "packed"])
def test_examples_of_other_kinds_are_trained_on(
    kind: str, records: Path, tmp_path: Path
) -> None:
    path = tmp_path / "made.tfrecord"
    if kind == "packed":
        forked(
            "pack_records.py",
            f"--input_file={records}",
            f"--output_file={path}",
            *(f"--{name}={value}" for name, value in LENGTHS.items()),
        )
    else:
        bert_keras.make_records(
            CORPUS, path, VOCAB, num_workers=1, dynamic_masking=True,
            max_seq_length=32,
        )  # fmt: skip
    first = bert_keras.pretrain(path, tmp_path / "files", **SHORT)
    features = table_of(read_first(str(path)), 32, 5)
    source = RecordBatches([str(path)], features, 4, 3, 10**6)
    batches = [source.batch(step) for step in range(4)]
    rows = {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    second = bert_keras.pretrain(dataset, tmp_path / "dataset", **SHORT)
    assert [x["loss"] for x in first.history] == [
        x["loss"] for x in second.history
    ]


def test_a_dataset_that_cannot_be_trained_on_gets_a_sentence(
    records: Path, tmp_path: Path
) -> None:
    tf.random.set_seed(None)  # with one, a `shuffle` without has one, too
    good = examples(records)
    number = sum(1 for _ in good)

    def drop(name: str) -> tf.data.Dataset:
        return good.map(lambda row: {k: x for k, x in row.items() if k != name})

    def change(name: str, make: Any) -> tf.data.Dataset:
        return good.map(lambda row: {**row, name: make(row[name])})

    generator = tf.data.Dataset.from_generator(
        lambda: good.as_numpy_iterator(), output_signature=good.element_spec
    )
    noise = good.map(
        lambda row: {**row, "noise": tf.random.uniform([])},
    )
    # of the config
    sentence = "used: input_ids has a number above 100"
    cases = (
        (good.batch(4), "as batches have it; expected one example an element"),
        (drop("input_mask"), "the dataset has no input_mask but input_ids"),
        (good.map(lambda row: row["input_ids"]), "are not dictionaries"),
        (change("input_ids", lambda x: x[: x[0]]), "a fixed length: pad its"),
        (change("segment_ids", lambda x: x[:7]), "length 7; expected 32"),
        (
            change("masked_lm_ids", lambda x: tf.cast(x, tf.float32)),
            "masked_lm_ids of type float32; expected int32 or int64",
        ),
        (generator, "state cannot be saved (PyFunc is stateful)"),
        (noise, "state cannot be saved (RandomUniform is stateful)"),
        (examples(records, seed=None), "give `shuffle`"),
        (good.take(0), "the dataset is empty; expected examples"),
        (change("input_ids", lambda x: x + 10**6), sentence),
        (
            change("input_ids", lambda x: x - 10**6),
            "used: input_ids has a number below 0",
        ),
        # its lower 32 bits are an id
        (
            change("input_ids", lambda x: tf.cast(x, tf.int64) + 2**32),
            sentence,
        ),
        (
            change(
                "input_ids",
                lambda x: tf.cast(x, tf.uint64) + tf.constant(2**32, tf.uint64),
            ),
            sentence,
        ),
        (
            drop("next_sentence_labels").map(
                lambda row: {
                    **row,
                    "masked_lm_weights": 0 * row["masked_lm_weights"],
                }
            ),
            f"nothing is masked in the first {number} examples of the dataset",
        ),
    )
    for i, (dataset, sentence) in enumerate(cases):
        with pytest.raises(InputError) as caught:
            bert_keras.pretrain(dataset, tmp_path / f"run-{i}", **SHORT)
        assert sentence in str(caught.value)
    for settings, sentence in (
        ({"max_seq_length": 31}, "`max_seq_length` is 31, but the dataset has"),
        ({"skip_corrupt_records": True}, "is for files of records"),
    ):
        given = SHORT | settings
        with pytest.raises(InputError, match=sentence):
            bert_keras.pretrain(good, tmp_path / "run", **given)


def test_pretraining_that_cannot_begin_is_refused(
    records: Path, tmp_path: Path
) -> None:
    for settings, sentence in (
        ({"vocab_file": None}, "the vocabulary is not known: give"),
        ({"random_student": True}, "`random_student` is for a model with a"),
        ({"eval_steps": 2}, "give `evaluation`"),
        ({"masked_lm_prob": 0.2}, "the records already have masks"),
    ):
        given = SHORT | settings
        with pytest.raises(InputError, match=sentence):
            bert_keras.pretrain(records, tmp_path / "run", **given)
    with pytest.raises(TypeError, match="pretrain has no setting dry_run"):
        bert_keras.pretrain(records, tmp_path / "run", dry_run=True, **SHORT)
    with pytest.raises(InputError, match="`records` is a list; expected names"):
        bert_keras.pretrain([], tmp_path / "run", **SHORT)
    with pytest.raises(InputError, match="`evaluation` is empty; expected"):
        bert_keras.pretrain(records, tmp_path / "run", evaluation="", **SHORT)
    with pytest.raises(InputError, match="`records` is a ndarray; expected"):
        paths = np.array([str(records), str(records)])
        bert_keras.pretrain(paths, tmp_path / "run", **SHORT)
    # their order does not decide whether next sentences are learnt
    no_pairs = tmp_path / "no_pairs.tfrecord"
    form = {"sequence_format": "full_sentences", "num_workers": 1}
    bert_keras.make_records(CORPUS, no_pairs, VOCAB, **form, **LENGTHS)
    for files in ([records, no_pairs], [no_pairs, records]):
        for skips in (False, True):
            with pytest.raises(InputError, match="all files must be of one k"):
                bert_keras.pretrain(
                    files,
                    tmp_path / "run",
                    skip_corrupt_records=skips,
                    **SHORT,
                )


def test_a_vocabulary_that_has_changed_is_read_again(tmp_path: Path) -> None:
    """Only the contents of the file differ, not the settings."""
    vocab, output = tmp_path / "vocab.txt", tmp_path / "made.tfrecord"
    made = []
    lines = Path(VOCAB).read_text().splitlines()
    for pieces in (lines, [*lines[:5], *lines[:4:-1]]):
        vocab.write_text("".join(f"{piece}\n" for piece in pieces))
        bert_keras.make_records(CORPUS, output, vocab, **LENGTHS)
        made.append(output.read_bytes())
        output.unlink()
        shutil.rmtree(tmp_path / ".made.tfrecord.making")
    assert made[0] != made[1]


def pretrained(records: Path, folder: Path, **settings: Any) -> Any:
    return bert_keras.pretrain(records, folder, **{**SHORT, **settings})


WSD: dict[str, Any] = {"learning_rate_schedule": "wsd", "num_decay_steps": 3}


@pytest.mark.slow
def test_a_branch_and_a_lengthened_run_equal_the_straight_one(
    records: Path, tmp_path: Path
) -> None:
    pretrained(records, tmp_path / "straight", num_train_steps=9, **WSD)
    long, branch = tmp_path / "long", tmp_path / "branch"
    pretrained(records, long, num_train_steps=8, keep_checkpoint_max=1, **WSD)
    longer = pretrained(records, long, num_train_steps=9, **WSD)
    assert_same_weights(long, tmp_path / "straight")
    assert [line["step"] for line in longer.history] == [*range(1, 10)]
    settings = {k: x for k, x in SHORT.items() if k != "num_train_steps"}
    del settings["init_checkpoint"]
    flags = [f"--{k}={x}" for k, x in {**settings, **WSD}.items()]
    config = GOLDEN / "tiny_bert" / "bert_config.json"
    flags += [f"--input_file={records}", f"--bert_config_file={config}"]
    for given, done in (
        ([f"--output_dir={branch}", f"--decay_from={long}"], 6),
        ([f"--output_dir={long}", "--num_train_steps=12"], 6),
    ):
        said = forked(
            "run_pretraining.py", "--do_train", "--dry_run", *flags, *given
        )
        assert f"epochs; {done} are done" in said
    for _ in range(2):  # the second time there is nothing to do
        bert_keras.pretrain(
            records,
            branch,
            bert_config_file=str(GOLDEN / "tiny_bert" / "bert_config.json"),
            decay_from=str(long),
            **{**settings, **WSD},
        )
        assert_same_weights(branch, tmp_path / "straight")
    with pytest.raises(InputError, match=r"steps` is 2 but was 1 when .*long"):
        bert_keras.pretrain(
            records,
            tmp_path / "other",
            bert_config_file=str(config),
            decay_from=str(long),
            **{**settings, **WSD, "num_warmup_steps": 2},
        )


@pytest.mark.slow
def test_a_finished_decay_is_not_undone(records: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrained(records, run, num_train_steps=8, **WSD)
    weights = (run / "training_state" / "step-8.index").read_bytes()
    other = {**WSD, "num_decay_steps": 4}
    for steps, settings in ((7, WSD), (8, other)):  # shorter, or slower
        pretrained(records, run, num_train_steps=steps, **settings)
        assert (run / "training_state" / "step-8.index").read_bytes() == weights
    with pytest.raises(InputError, match="was not begun with `decay_from="):
        no_steps = {k: x for k, x in SHORT.items() if k != "num_train_steps"}
        bert_keras.pretrain(
            records, run, decay_from=str(run), **{**no_steps, **WSD}
        )


@pytest.mark.slow
def test_a_lengthened_run_evaluates_anew(records: Path, tmp_path: Path) -> None:
    """The best model of the shorter run is one that had decayed."""

    def step_of(line: str) -> int:
        step: int = json.loads(line)["step"]
        return step

    run = tmp_path / "run"
    watched: dict[str, Any] = {"evaluation": records, "eval_steps": 1, **WSD}
    pretrained(records, run, num_train_steps=8, **watched)
    assert json.loads((run / "best.json").read_text())["step"] > 5
    pretrained(records, run, num_train_steps=20, **watched)
    lines = (run / "eval_log.jsonl").read_text().splitlines()
    seen = [json.loads(line) for line in lines]
    assert [line["step"] for line in seen] == [*range(6, 21)]
    earlier = (run / "earlier_results" / "eval_log.jsonl").read_text()
    assert [*map(step_of, earlier.splitlines())] == [*range(1, 9)]
    best = json.loads((run / "best.json").read_text())
    assert best == min(seen, key=lambda line: line["loss"])
    at_end = bert_keras.pretrain(
        records, run, **{**SHORT, **watched, "num_train_steps": 20}
    )
    assert at_end.metrics["loss"] == pytest.approx(best["loss"], rel=1e-5)


@pytest.mark.slow
def test_the_best_model_of_a_killed_run_is_in_its_log(
    records: Path, tmp_path: Path
) -> None:
    """The best one up to the state of step 4, while a later one was the best
    when the run was killed."""
    run = tmp_path / "run"
    watched: dict[str, Any] = {
        "evaluation": records, "eval_steps": 2, "save_checkpoints_steps": 4,
        "num_train_steps": 12,
    }  # fmt: skip

    with pytest.raises(Stopped):
        pretrained(records, run, callback=stop_after(7), **watched)
    best = json.loads((run / "best" / "best.json").read_text())
    assert best["step"] == 6
    with pytest.raises(Stopped):
        pretrained(records, run, callback=stop_after(5), **watched)
    best = json.loads((run / "best" / "best.json").read_text())
    log = (run / "eval_log.jsonl").read_text().splitlines()
    assert best in [*map(json.loads, log)]
    assert best["step"] <= 4


@pytest.mark.slow
def test_a_refused_branch_leaves_nothing(records: Path, tmp_path: Path) -> None:
    pretrained(records, tmp_path / "long", num_train_steps=8, **WSD)
    settings = {k: x for k, x in SHORT.items() if k != "num_train_steps"}
    settings |= {**WSD, "decay_from": str(tmp_path / "long")}
    branch = tmp_path / "branch"
    with pytest.raises(InputError, match="`train_batch_size` is 3 but was 4"):
        bert_keras.pretrain(
            records, branch, **{**settings, "train_batch_size": 3}
        )
    assert not list(branch.rglob("*step-*"))
    # more steps than the default number of a run
    with pytest.raises(InputError, match="is 300,000 but the run has 21"):
        tokens = {"train_tokens": 2700, "num_decay_steps": 300_000}
        no_branch = {k: x for k, x in settings.items() if k != "decay_from"}
        bert_keras.pretrain(records, branch, **{**no_branch, **tokens})


@pytest.mark.slow
def test_what_cannot_be_branched(records: Path, tmp_path: Path) -> None:
    others: dict[str, Any]
    settings: dict[str, Any] = {
        k: x for k, x in SHORT.items() if k != "num_train_steps"
    }
    pretrained(records, tmp_path / "linear")
    rising = {"num_train_steps": 8, "num_warmup_steps": 7}
    pretrained(records, tmp_path / "rising", **rising, **WSD)
    for source, others, message in (
        ("linear", WSD, "is not a run with `learning_rate_schedule=wsd`"),
        ("nowhere", WSD, "is not a run with `learning_rate_schedule=wsd`"),
        ("rising", WSD, "between its warm-up of 7 steps and its decay"),
        ("linear", {}, "needs `learning_rate_schedule=wsd` and"),
    ):
        with pytest.raises(InputError, match=message):
            bert_keras.pretrain(
                records,
                tmp_path / "branch",
                decay_from=str(tmp_path / source),
                **settings,
                **others,
            )
    with pytest.raises(InputError, match="both say how long to train"):
        pretrained(records, tmp_path / "both", train_hours=1.0)


@pytest.mark.slow
def test_scores_of_what_is_trained_on_are_named(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.tfrecord"
    shutil.copy(records, other)
    again = os.path.relpath(records)
    table = table_of(read_first(str(records)), *LENGTHS.values())
    rows = parse_batch(table, [*tf.data.TFRecordDataset(str(records))])
    pairs = rows["next_sentence_labels"].numpy()
    share = max(pairs.mean(), 1 - pairs.mean())
    for given, is_named in ((other, False), (f"{other},{again}", True)):
        folder = tmp_path / str(is_named)
        pretrained(records, folder, evaluation=given, max_eval_steps=1)
        shown, said = capsys.readouterr()
        assert f", nsp_acc {share:.4f}\n" in shown
        assert ("is among the files of `input_file`" in said) == is_named
        assert "evaluates the first 8 records of " in said
        assert "(max_eval_steps=1, eval_batch_size=8)" in said
        say_once.cache_clear()
    for size, is_said in ((len(pairs), False), (len(pairs) - 1, True)):
        pretrained(
            records,
            tmp_path / str(size),
            evaluation=str(other),
            general_eval_file=again,
            max_eval_steps=1,
            eval_batch_size=size,
        )
        said = capsys.readouterr().err
        assert "of `input_file` and of `general_eval_file`" in said
        assert (f"evaluates the first {size} records of" in said) == is_said


@pytest.mark.slow
def test_a_run_gets_its_vocabulary_later(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = [
        "run_pretraining.py",
        "--do_train",
        f"--input_file={records}",
        f"--init_checkpoint={GOLDEN / 'tiny_bert'}",
        f"--output_dir={out}",
        "--train_batch_size=4",
        *(f"--{name}={x}" for name, x in LENGTHS.items()),
    ]
    wsd = ["--learning_rate_schedule=wsd", "--num_decay_steps=1"]
    args += [*wsd, "--num_warmup_steps=1", "--do_lower_case"]
    said = forked(*args, "--num_train_steps=2")
    assert f"copy vocab.txt to {out}" in said
    vocab_file = f"--vocab_file={VOCAB}"
    branch = tmp_path / "branch"
    forked(*args, vocab_file, f"--output_dir={branch}", f"--decay_from={out}")
    for folder in (out, branch):
        assert (folder / "training_state/step-2.index").exists()
    shutil.copy(VOCAB, out / "vocab.txt")
    sentence = fails_with(*args, "--num_train_steps=3", "--nodo_lower_case")
    assert "case" in sentence
    said = forked(*args, "--num_train_steps=3")
    assert "was begun by an earlier version" not in said
    for folder in (out, branch):
        path = folder / "training_state/settings.json"
        assert json.loads(path.read_text())["vocab_file"].startswith("95 ")
    forked(*args[:1], "--do_eval", *args[2:])


class Stopped(Exception):
    """A run is given up."""


def stop_after(last: int) -> Callable[[int, dict[str, float]], None]:
    def callback(step: int, figures: dict[str, float]) -> None:
        if step == last:
            raise Stopped

    return callback


@pytest.mark.slow
def test_a_growing_batch(records: Path, tmp_path: Path) -> None:
    """Batches of 2, 4, 6 and 8 rows of 32 tokens, then of 8 only."""
    settings: dict[str, Any] = {
        **SHORT, "train_batch_size": 8, "num_accumulation_steps": 4,
        "batch_ramp_steps": 4, "num_train_steps": 6,
    }  # fmt: skip

    bert_keras.pretrain(records, tmp_path / "straight", **settings)
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        bert_keras.pretrain(
            records,
            run,
            callback=stop_after(3),
            save_checkpoints_steps=2,
            **settings,
        )
    with pytest.raises(InputError, match="s beginning` is 4 but was 2"):
        other = {**settings, "num_accumulation_steps": 2}
        bert_keras.pretrain(records, run, **other)
    bert_keras.pretrain(records, run, **settings)
    assert_same_weights(tmp_path / "straight", run)
    batches = RecordBatches(
        [str(records)], FEATURES, lambda step: 2 * step + 2, 3, 500
    )
    assert [len(batches.batch(i)["input_ids"]) for i in range(3)] == [2, 4, 6]
    tokens = 32 * (2 + 4 + 6 + 8 + 8 + 8)
    for given, expected in ((tokens, 6), (tokens - 1, 5), (32 * 11, 2)):
        budget = {**settings, "train_tokens": given}
        del budget["num_train_steps"], budget["num_warmup_steps"]
        folder = tmp_path / str(given)
        model = bert_keras.pretrain(records, folder, **budget)
        assert len(model.history) == expected
    for wrong, message in (
        ({"num_accumulation_steps": 1}, "begins with one of the parts"),
        ({"batch_ramp_steps": 0}, "`batch_ramp_steps` is 0; expected at"),
    ):
        with pytest.raises(InputError, match=message):
            bert_keras.pretrain(
                records, tmp_path / "no", **{**settings, **wrong}
            )
    with pytest.raises(InputError, match="is for files of records, not for a"):
        bert_keras.pretrain(examples(records), tmp_path / "no", **settings)


@pytest.mark.slow
def test_a_budget_of_tokens(records: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SHORT, "train_tokens": 2700}
    del settings["num_train_steps"], settings["num_warmup_steps"]
    model = bert_keras.pretrain(records, tmp_path / "run", **settings)
    assert len(model.history) == 2700 // (4 * 32)
    rates = [line["learning_rate"] for line in model.history]
    assert rates.index(max(rates)) == len(rates) // 10  # the warm-up's end

    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        bert_keras.pretrain(
            records,
            stopped,
            callback=stop_after(10),
            save_checkpoints_steps=5,
            **settings,
        )
    bert_keras.pretrain(records, stopped, **settings)
    assert_same_weights(tmp_path / "run", stopped)
    with pytest.raises(InputError, match="to train for longer, `num_train"):
        more = {**settings, "train_tokens": 4000}
        bert_keras.pretrain(records, tmp_path / "run", **more)
    with pytest.raises(InputError, match="`num_warmup_steps` is 1 but was 2"):
        bert_keras.pretrain(
            records, tmp_path / "run", num_warmup_steps=1, **settings
        )
    # with the warm-up that the budget gave it
    del settings["train_tokens"]
    longer = bert_keras.pretrain(
        records, tmp_path / "run", num_train_steps=25, **settings
    )
    assert len(longer.history) == 25
    with pytest.raises(InputError, match="is not enough for one step"):
        bert_keras.pretrain(
            records, tmp_path / "less", train_tokens=127, **settings
        )


@pytest.mark.slow
def test_a_budget_of_hours_is_kept_when_the_run_resumes(
    records: Path, tmp_path: Path
) -> None:
    hours: dict[str, Any] = {**SHORT, "train_hours": 0.1}
    del hours["num_train_steps"], hours["num_warmup_steps"]

    def run_up_to(
        last: int, folder: Path, settings: dict[str, Any]
    ) -> list[dict[str, float]]:
        with pytest.raises(Stopped):
            bert_keras.pretrain(
                records,
                folder,
                callback=stop_after(last),
                save_checkpoints_steps=5,
                **settings,
            )
        lines = (folder / "train_log.jsonl").read_text().splitlines()
        return [
            {k: x for k, x in line.items() if k != "tokens_per_second"}
            for line in map(json.loads, lines)
        ]

    run_up_to(5, tmp_path / "run", hours)
    state = tmp_path / "run" / "training_state" / "settings.json"
    num_steps = json.loads(state.read_text())["num_train_steps"]
    resumed = run_up_to(10, tmp_path / "run", hours)
    assert json.loads(state.read_text())["num_train_steps"] == num_steps > 10
    # measuring changed nothing: as with this number of steps and no budget
    fixed = {
        "num_train_steps": num_steps,
        "num_warmup_steps": num_steps // 10,
    }
    straight = run_up_to(10, tmp_path / "fixed", {**SHORT, **fixed})
    assert resumed == straight
    assert [line["step"] for line in straight] == [*range(1, 11)]

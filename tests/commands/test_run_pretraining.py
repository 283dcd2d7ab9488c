"""Tests of run_pretraining.py, as processes that a user could have started."""

import dataclasses
import json
import math
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import files, locks
from bert_keras.data.record_schema import (
    pretraining_features,
    without_next_sentence,
)
from bert_keras.data.tfrecords import RecordWriter, encode, frame, read_records
from bert_keras.data.validate_records import check_files, decode
from bert_keras.tasks.pretraining.advice import first_records, length_hint
from tests.conftest import (
    GOLDEN,
    NUM_PREDICTIONS,
    ONE_LAYER,
    SEQ_LENGTH,
    TINY,
    fails_with,
    files_in,
    forked,
    free_ports,
    results,
    start_fork,
    tiny_record,
    well_ended,
)
from tests.forked_commands import Running

REPEAT = GOLDEN / "tiny_bert_repeat"
SHAPE = (
    f"--max_seq_length={SEQ_LENGTH}",
    f"--max_predictions_per_seq={NUM_PREDICTIONS}",
)

FEATURES = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)


def variables(folder: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    shapes = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in shapes}


def log(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "train_log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def golden_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Trains as the recorded run of the original did, with element-wise chains
    compiled as for users; (output_dir, stdout)."""
    folder = tmp_path_factory.mktemp("golden")
    batches = np.load(REPEAT / "training.npz")
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    record = {f.name: batches[f"batch_{f.name}"][0, 0] for f in features}
    with RecordWriter([str(folder / "one.tfrecord.gz")]) as writer:
        writer.write(encode(features, record))
    output = forked(
        "run_pretraining.py",
        "--do_train",
        "--do_eval",
        f"--input_file={folder}/*.gz",
        f"--bert_config_file={REPEAT}/bert_config.json",
        f"--init_checkpoint={REPEAT}/bert_model.ckpt",
        f"--output_dir={folder}/out",
        *SHAPE,
        "--train_batch_size=7",
        "--num_train_steps=30",
        "--num_warmup_steps=6",
        "--learning_rate=1e-3",
        "--do_lower_case=False",  # as Google's multilingual page has it
        compiles=True,
    )
    return folder / "out", output


def test_a_run_of_another_task_is_named_as_that(
    golden_run: tuple[Path, str], tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "the sea,a\nan old ship,b\n" * 4)
    said = fails_with(
        "run_classifier.py",
        "--do_train",
        f"--train_file={table}",
        f"--vocab_file={GOLDEN / 'tiny_vocab.txt'}",
        "--max_seq_length=16",
        f"--output_dir={golden_run[0]}",
    )
    assert "has a run of pre-training, and this is fine-tuning; name" in said


def test_losses_and_weights_are_googles(golden_run: tuple[Path, str]) -> None:
    folder, output = golden_run
    assert "62 variables loaded\n" in output
    # one record, with two masks of one token
    assert (
        "alone: loss 0.00, mlm_loss 0.00, mlm_acc 1.0000, nsp_acc 1.0000\n"
        in output
    )
    golden = np.load(REPEAT / "training.npz")
    names = ("masked_lm_loss", "next_sentence_loss", "loss")
    losses = [[line[name] for name in names] for line in log(folder)]
    np.testing.assert_allclose(losses, golden["losses"], atol=1e-4, rtol=0)
    rates = [line["learning_rate"] for line in log(folder)]
    np.testing.assert_allclose(rates, golden["learning_rates"], atol=1e-9)
    written = variables(folder)
    assert len(written) == 62
    said = json.loads((folder / "tokenizer_config.json").read_text())
    assert said["do_lower_case"] is False
    finals = [name for name in golden if name.startswith("final/")]
    assert len(finals) == 30
    for name in finals:
        value = written[name.removeprefix("final/")]
        np.testing.assert_allclose(value, golden[name], atol=1e-4, rtol=0)


def test_eval_results_are_in_googles_format(
    golden_run: tuple[Path, str],
) -> None:
    lines = (golden_run[0] / "eval_results.txt").read_text().splitlines()
    figures = dict(line.split(" = ") for line in lines)
    assert "--input_file, on which the model was trained" in golden_run[1]
    assert list(figures) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    assert figures["global_step"] == "30"
    # what TensorFlow 1.15 and the original print for this folder's weights
    assert float(figures["loss"]) == pytest.approx(0.010631138, abs=1e-5)


def test_a_finished_run_says_so_and_keeps_its_model(
    golden_run: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = golden_run
    before = variables(folder)
    output = forked(
        "run_pretraining.py",
        "--do_train",
        f"--input_file={folder.parent}/one.tfrecord.gz",
        f"--bert_config_file={REPEAT}/bert_config.json",
        f"--output_dir={folder}",
        *SHAPE,
        "--train_batch_size=7",
        "--num_train_steps=30",
        "--num_warmup_steps=6",
        "--learning_rate=1e-3",
    )
    assert "all of its 30 training steps" in output
    after = variables(folder)
    assert all((after[name] == before[name]).all() for name in before)
    assert f"begun from --init_checkpoint={REPEAT}" in output
    assert "--learning_rate=0.001" in (folder / "flags.txt").read_text()
    assert results(folder)["global_step"] == 30  # of this very model
    again = forked("run_pretraining.py", f"--flagfile={folder}/flags.txt")
    assert "all of its 30 training steps" in again


def test_evaluation_alone_reads_the_checkpoint(
    golden_run: tuple[Path, str], tmp_path: Path
) -> None:
    args = [
        "--do_eval",
        f"--input_file={golden_run[0].parent}/one.tfrecord.gz",
        f"--bert_config_file={REPEAT}/bert_config.json",
        f"--output_dir={tmp_path}",
        *SHAPE,
    ]
    sentence = fails_with("run_pretraining.py", *args)
    assert "no checkpoint at" in sentence
    forked("run_pretraining.py", *args, f"--init_checkpoint={REPEAT}")
    found = results(tmp_path)
    golden = np.load(REPEAT / "training.npz")["losses"][0]
    assert found["loss"] == pytest.approx(float(golden[2]), abs=1e-4)
    assert found["global_step"] == 0
    ended = well_ended(
        "run_pretraining.py", *args, f"--output_dir={golden_run[0]}"
    )
    assert "global_step = 30" in ended.output
    assert "could not be found" not in ended.errors  # the optimiser's moments


def train_args(config_file: str, records: str, output_dir: Path) -> list[str]:
    return [
        "--do_train",
        f"--input_file={records}",
        f"--bert_config_file={config_file}",
        f"--output_dir={output_dir}",
        *SHAPE,
        "--train_batch_size=8",
        "--num_warmup_steps=3",
        "--learning_rate=1e-3",
    ]


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(
    tiny_records: str, tmp_path: Path
) -> None:
    config = tmp_path / "bert_config.json"
    text = ONE_LAYER.to_json().replace(
        'dropout_prob": 0.0', 'dropout_prob": 0.1'
    )
    assert text.count("0.1") == 2
    config.write_text(text)
    common = (
        "--num_train_steps=30",
        "--save_checkpoints_steps=5",
        "--num_accumulation_steps=2",
        f"--eval_file={tiny_records}",
        "--eval_steps=10",
        "--best_metric=next_sentence_accuracy",
        "--do_eval",
    )
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    forked(
        "run_pretraining.py",
        *train_args(str(config), tiny_records, straight),
        *common,
        compiles=True,
    )
    args = [*train_args(str(config), tiny_records, cut), *common]
    for step, number, code in (
        (5, signal.SIGTERM, 143),
        (15, signal.SIGKILL, -signal.SIGKILL),
    ):
        process = start_fork("run_pretraining.py", *args, compiles=True)
        state = cut / "training_state" / f"step-{step}.index"
        while not state.exists() and process.is_running():
            time.sleep(0.005)
        process.send_signal(number)
        ended = process.ended()
        assert ended.code == code, ended.errors
        assert ("which is saved" in ended.errors) == (code == 143)
    assert not (cut / "bert_model.ckpt.index").exists()
    assert "resuming from the checkpoint after step" in forked(
        "run_pretraining.py", *args, compiles=True
    )
    expected, resumed = variables(straight), variables(cut)
    for name, value in expected.items():
        np.testing.assert_array_equal(resumed[name], value)
    assert [line["step"] for line in log(cut)] == list(range(1, 31))
    losses = [[line["loss"] for line in log(f)] for f in (straight, cut)]
    assert losses[0] == losses[1]
    logs = [(f / "eval_log.jsonl").read_text() for f in (straight, cut)]
    assert logs[0] == logs[1]
    seen = [json.loads(line) for line in logs[0].splitlines()]
    assert [line["step"] for line in seen] == [10, 20, 30]
    best = max(seen, key=lambda line: line["next_sentence_accuracy"])
    assert results(cut) == {"global_step": best.pop("step"), **best}


@pytest.fixture(scope="module")
def one_device(
    tiny_records: str,
    config_file: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, np.ndarray]:
    folder = tmp_path_factory.mktemp("one")
    args = train_args(config_file, tiny_records, folder)
    forked("run_pretraining.py", *args, "--num_train_steps=10")
    return variables(folder)


def assert_close(folder: Path, expected: dict[str, np.ndarray]) -> None:
    found = variables(folder)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_masks_are_drawn_for_records_without(tmp_path: Path) -> None:
    vocab_file = GOLDEN / "tiny_vocab.txt"
    vocab_size = len(vocab_file.read_text("utf-8").splitlines())
    config = dataclasses.replace(ONE_LAYER, vocab_size=vocab_size)
    (tmp_path / "bert_config.json").write_text(config.to_json())
    forked(
        "create_pretraining_data.py",
        f"--input_file={GOLDEN}/tiny_corpus.txt",
        f"--vocab_file={vocab_file}",
        f"--output_file={tmp_path}/records",
        "--dynamic_masking",
        *SHAPE,
    )
    args = [
        "--do_train",
        "--do_eval",
        f"--input_file={tmp_path}/records",
        f"--bert_config_file={tmp_path}/bert_config.json",
        f"--output_dir={tmp_path}/out",
        *SHAPE,
        "--train_batch_size=6",
        "--num_train_steps=3",
        "--eval_masked_lm_prob=0.5",
        f"--eval_file={tmp_path}/records",
        "--eval_steps=3",
    ]
    sentence = fails_with("run_pretraining.py", *args)
    assert "records have no masks" in sentence
    assert "--vocab_file" in sentence
    args += [f"--vocab_file={vocab_file}", "--masked_lm_prob=0.6"]
    run = well_ended("run_pretraining.py", *args, "--do_whole_word_mask")
    assert "masking 60% of the tokens, whole words\n" in run.output
    for flag in ("masked_lm_prob=0.6", "eval_masked_lm_prob=0.5"):
        hint = f"WARNING: --{flag} asks for "  # and gets fewer
        assert hint in run.errors
    losses = [line["masked_lm_loss"] for line in log(tmp_path / "out")]
    assert len(losses) == 3
    assert all(0 < loss < 2 * math.log(vocab_size) for loss in losses)

    # TensorBoard shows what was masked, and what was predicted.
    (path,) = (tmp_path / "out" / "tensorboard" / "eval").iterdir()
    (text,) = (
        tf.make_ndarray(value.tensor).item().decode()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "samples"
    )
    example = tf.train.Example.FromString(
        next(iter(read_records(f"{tmp_path}/records")))
    )
    vocab = vocab_file.read_text("utf-8").splitlines()
    ids = example.features.feature["input_ids"].int64_list.value
    shown = text.split("\n\n")[0].split()
    masks = 0
    for true, token in zip(ids, shown, strict=False):
        if token != vocab[true]:
            found = re.fullmatch(r"\[(.+?)(->.+)?\]", token)
            assert found and found[1] == vocab[true]
            masks += 1
    assert 0 < masks <= NUM_PREDICTIONS


@pytest.mark.slow
def test_next_sentences_may_be_left_out(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    args = [
        *train_args(config_file, tiny_records, tmp_path / "out"),
        "--num_train_steps=2",
        "--do_eval",
        "--max_eval_steps=2",
    ]
    output = forked("run_pretraining.py", *args, "--nonext_sentence_prediction")
    assert "next_sentence_loss" not in output
    assert "masked_lm_loss = " in output
    names = variables(tmp_path / "out")
    assert "cls/predictions/output_bias" in names
    assert not [name for name in names if "seq_relationship" in name]
    assert [*log(tmp_path / "out")[0]][1:3] == ["loss", "masked_lm_loss"]
    sentence = fails_with("run_pretraining.py", *args)
    assert "--next_sentence_prediction is None but was False" in sentence


def test_records_without_labels_have_no_next_sentences(
    config_file: str, tmp_path: Path
) -> None:
    features = without_next_sentence(FEATURES)
    rng = np.random.default_rng(7)
    with RecordWriter([str(tmp_path / "records")]) as writer:
        for _ in range(17):
            writer.write(encode(features, tiny_record(rng)))
    forked(
        "pack_records.py",
        f"--input_file={tmp_path}/records",
        f"--output_file={tmp_path}/packed",
        *SHAPE,
    )
    args = train_args(config_file, f"{tmp_path}/packed", tmp_path / "out")
    sentence = fails_with(
        "run_pretraining.py", *args, "--next_sentence_prediction"
    )
    assert "records without next_sentence_labels" in sentence
    ended = well_ended(
        "run_pretraining.py", *args, "--num_train_steps=1", "--dry_run"
    )
    assert "1 of 8 examples" in ended.output
    assert "positions beyond are not trained" not in ended.errors
    found = first_records(features, [f"{tmp_path}/records"])
    longest = max(
        sum(decode(record, "", 1)["input_mask"].int64_list.value)
        for record in read_records(f"{tmp_path}/records")
    )
    assert length_hint(found, longest) == []
    [hint] = length_hint(found, longest + 1)
    assert f"the longest of the first 17 records has {longest} of" in hint


@pytest.mark.slow
def test_two_replicas_give_the_weights_of_one_device(
    tiny_records: str,
    config_file: str,
    one_device: dict[str, np.ndarray],
    tmp_path: Path,
) -> None:
    args = train_args(config_file, tiny_records, tmp_path)
    forked("tests/mirrored_run.py", *args, "--num_train_steps=10")
    assert_close(tmp_path, one_device)


@pytest.mark.slow
def test_two_hosts_give_the_weights_of_one_device(
    tiny_records: str,
    config_file: str,
    one_device: dict[str, np.ndarray],
    tmp_path: Path,
) -> None:
    args = [
        *train_args(config_file, tiny_records, tmp_path),
        "--num_train_steps=10",
        f"--eval_file={tiny_records}",
        "--eval_steps=7",
    ]
    processes = start_hosts([args] * 2)
    for process in processes:
        ended = process.ended()
        assert ended.code == 0, ended.errors
    assert_close(tmp_path, one_device)
    assert [line["step"] for line in log(tmp_path)] == list(range(1, 11))
    seen = (tmp_path / "eval_log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in seen] == [7, 10]
    assert json.loads(seen[1])["loss"] < json.loads(seen[0])["loss"]  # the best


@pytest.mark.slow
def test_hosts_stop_after_the_same_step_and_go_on_from_it(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    begun, fresh = tmp_path / "begun", tmp_path / "fresh"
    args = train_args(config_file, tiny_records, begun)
    processes = start_hosts([[*args, "--num_train_steps=100000"]] * 2)
    while not (begun / "train_log.jsonl").exists():
        assert all(process.is_running() for process in processes)
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGTERM)
    steps: list[str] = []
    for process in processes:
        ended = process.ended()
        assert ended.code == 143, ended.errors
        [step] = re.findall(r"after step (\d+), which is saved", ended.errors)
        steps.append(step)
    assert steps[0] == steps[1]
    assert (begun / "training_state" / f"step-{steps[0]}.index").exists()

    processes = start_hosts(
        [train_args(config_file, tiny_records, f) for f in (begun, fresh)]
    )
    both = [process.ended() for process in processes]
    assert [ended.code for ended in both] == [1, 1]
    said = ["one folder that all hosts see" in ended.errors for ended in both]
    # a slow host may find that the other one has ended by then
    gone = ["no longer answers" in ended.errors for ended in both]
    assert any(said) and all(map(max, said, gone)), both


def start_hosts(args: list[list[str]]) -> list[Running]:
    """Starts one worker for each list of arguments, all of one job."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(len(args))]
    return [
        start_fork(
            "run_pretraining.py",
            *args[index],
            TF_CONFIG=json.dumps(
                {
                    "cluster": {"worker": workers},
                    "task": {"type": "worker", "index": index},
                }
            ),
        )
        for index in range(len(args))
    ]


def test_bad_input_is_a_sentence(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *(f"a{i}" for i in range(200))]
    vocabulary.write_text("\n".join(pieces))
    narrow = tmp_path / "narrow.json"
    narrow.write_text(ONE_LAYER.to_json().replace('size": 101', 'size": 50'))
    short = tmp_path / "short.json"
    short.write_text(ONE_LAYER.to_json().replace(": 61", ": 17"))
    (tmp_path / "file").write_text("")
    args = train_args(config_file, tiny_records, tmp_path / "out")
    cases = [
        (["--input_file=/absent*"], "/absent*"),
        (["--max_seq_length=31"], "--max_seq_length"),
        (["--max_predictions_per_seq=7"], "--max_predictions_per_seq"),
        ([f"--bert_config_file={narrow}"], "outside vocab_size"),
        ([f"--bert_config_file={short}"], "max_position_embeddings"),
        ([f"--vocab_file={vocabulary}"], "vocab_size"),
        (["--init_checkpoint=/absent"], "--init_checkpoint"),
        (["--num_accumulation_steps=3"], "--train_batch_size"),
        ([f"--output_dir={tmp_path}/file/x"], "--output_dir"),
        (["--nodo_train"], "--do_train"),
        (["--eval_steps=2"], "give --eval_file"),
        (["--patience=2"], "give --eval_steps"),
        (
            [
                "--eval_steps=2",
                f"--eval_file={tiny_records}",
                "--best_metric=f1",
            ],
            "loss, masked_lm_loss, masked_lm_accuracy, next_sentence_loss",
        ),
        (["surplus"], "surplus"),
    ]
    for extra, named in cases:
        assert named in fails_with("run_pretraining.py", *args, *extra)
    assert not [*(tmp_path / "out").glob("training_state/step-*")]


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--max_seq_lenght=29", "max_seq_length"),  # the nearest known one
        ("--num_train_steps=0", "--num_train_steps=0"),
        ("--learning_rate=high", "--learning_rate=high"),
        ("--num_warmup_steps=-3", "--num_warmup_steps=-3"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, named: str) -> None:
    ended = start_fork("run_pretraining.py", flag).ended()
    assert ended.is_refusal, ended
    assert named in ended.errors


@pytest.mark.slow
def test_a_damaged_record_is_found_by_file_and_number(
    config_file: str, tmp_path: Path
) -> None:
    path = tmp_path / "cut.tfrecord"
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    rng = np.random.default_rng(3)
    with RecordWriter([str(path)]) as writer:
        for _ in range(9):
            writer.write(encode(features, tiny_record(rng)))
    path.write_bytes(path.read_bytes()[:-7])
    args = train_args(config_file, str(path), tmp_path / "out")
    sentence = fails_with("run_pretraining.py", *args, "--num_train_steps=9")
    assert f"{path}, record 9 cannot be read" in sentence
    assert [*(tmp_path / "out").glob("training_state/step-*")]

    skipping = "--skip_corrupt_records"
    sentence = fails_with("run_pretraining.py", *args, skipping)
    assert "--skip_corrupt_records is True but was None" in sentence
    path.write_bytes(path.read_bytes()[:-7])
    sentence = fails_with("run_pretraining.py", *args)
    size = path.stat().st_size
    assert f"reads 'cut.tfrecord, {size} bytes, checksum" in sentence
    args = train_args(config_file, str(path), tmp_path / "other")
    output = forked(
        "run_pretraining.py",
        *args,
        skipping,
        "--num_train_steps=9",
        "--dry_run",
    )
    assert "8 records in 1 files" in output
    assert not (tmp_path / "other").exists()
    ended = well_ended(
        "run_pretraining.py", *args, skipping, "--num_train_steps=9"
    )
    assert f"left out: {path}, record 9 cannot be read" in ended.errors
    assert "1 records in 1 files cannot be used" in ended.output


@pytest.mark.slow
def test_damaged_states_and_changed_flags(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    args = [
        *train_args(config_file, tiny_records, tmp_path / "out"),
        "--save_checkpoints_steps=5",
    ]
    forked("run_pretraining.py", *args, "--num_train_steps=10", "--do_eval")
    states = tmp_path / "out" / "training_state"

    before = files_in(tmp_path)
    output = forked(
        "run_pretraining.py", *args, "--num_train_steps=12", "--dry_run"
    )
    assert "is that of" in output
    assert "12 of 8 examples, 0.68 epochs; 10 are done" in output
    assert files_in(tmp_path) == before

    sentence = fails_with("run_pretraining.py", *args, "--train_batch_size=4")
    assert "--train_batch_size is 4 but was 8" in sentence
    sentence = fails_with("run_pretraining.py", *args, "--optimizer_type=lamb")
    assert "--optimizer_type is 'lamb' but was 'adamw'" in sentence
    sentence = fails_with("run_pretraining.py", *args, "--learning_rate=2e-3")
    assert "--learning_rate is 0.002 but was 0.001" in sentence
    assert f"--init_checkpoint={tmp_path}/out starts from" in sentence

    # the same number of bytes
    records = [*map(Path, tf.io.gfile.glob(tiny_records))]
    for path, other in zip(records, records[::-1], strict=True):
        shutil.copy(other, tmp_path / path.name)
    copied = f"--input_file={tmp_path}/*.tfrecord"
    sentence = fails_with("run_pretraining.py", *args, copied)
    assert "--input_file reads '0.tfrecord, " in sentence
    for path in records:
        shutil.copy(path, tmp_path / path.name)
    args[1] = copied

    another = tmp_path / "another.json"
    another.write_text(ONE_LAYER.to_json().replace('"gelu"', '"relu"'))
    sentence = fails_with(
        "run_pretraining.py", *args, f"--bert_config_file={another}"
    )
    assert "hidden_act is 'relu' but was 'gelu'" in sentence

    with locks.lock(str(states), "--output_dir"):
        sentence = fails_with(
            "run_pretraining.py", *args, "--num_train_steps=12"
        )
    assert f"another process is working in {states}" in sentence

    def cut(step: int) -> None:
        path = states / f"step-{step}.data-00000-of-00001"
        path.write_bytes(path.read_bytes()[:500])

    cut(10)
    ended = well_ended("run_pretraining.py", *args, "--num_train_steps=12")
    assert "step-10 is damaged" in ended.errors
    assert "resuming from the checkpoint after step 5" in ended.output
    assert "--num_train_steps is 12 but was 10" in ended.output
    # its scores are of the model before
    assert not (tmp_path / "out" / "eval_results.txt").exists()
    assert results(tmp_path / "out" / "earlier_results")["global_step"] == 10
    flags = (tmp_path / "out" / "flags.txt").read_text()
    assert "--num_train_steps=12" in flags
    steps = [line["step"] for line in log(tmp_path / "out")]
    assert steps == list(range(1, 13))
    for path in states.glob("step-*.index"):
        cut(int(path.stem.removeprefix("step-")))
    assert "every checkpoint" in fails_with("run_pretraining.py", *args)


@pytest.mark.slow
def test_records_in_another_order_are_other_records(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    [first, *_] = sorted(tf.io.gfile.glob(tiny_records))
    content = Path(first).read_bytes()
    records = [*read_records(first)]
    swapped = frame(records[::-1])
    assert len(swapped) == len(content) and swapped != content
    around = content * (files.END_BYTES // len(content) + 1)
    path = tmp_path / "records"
    path.write_bytes(around + content + around)
    args = [
        *train_args(config_file, str(path), tmp_path / "out"),
        "--num_train_steps=1",
    ]
    forked("run_pretraining.py", *args)
    settings = tmp_path / "out" / "training_state" / "settings.json"
    began = settings.read_text()

    path.write_bytes(around + swapped + around)
    sentence = fails_with("run_pretraining.py", *args, "--num_train_steps=2")
    assert "--input_file reads 'records, " in sentence
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "records"
    copy.write_bytes(around + content + around)
    # An earlier version stored no digest.
    settings.write_text(re.sub(", digest [0-9a-f]+", "", began))
    args[1] = f"--input_file={copy}"
    for number in (2, 3):
        forked("run_pretraining.py", *args, f"--num_train_steps={number}")
    assert ", digest " in settings.read_text()


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run(
    tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    sentence = fails_with(
        "run_pretraining.py",
        *train_args(config_file, tiny_records, tmp_path),
        "--learning_rate=1e38",
        "--num_warmup_steps=0",
    )
    assert "the loss is nan" in sentence or "the loss is inf" in sentence
    assert not (tmp_path / "bert_model.ckpt.index").exists()
    [batch] = tmp_path.glob("nonfinite-step-*.tfrecord")
    assert f"its batch is in {batch}" in sentence
    check_files([str(batch)], FEATURES, TINY.vocab_size)

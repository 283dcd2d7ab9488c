"""pretrain_domain.py's work: a model learns the language of a corpus, and a
report says what that gave and what it cost.

Gururangan et al. 2020 ("Don't stop pretraining") call this domain-adaptive
pre-training. Wettig et al. 2022 ("Should you mask 15 %?") for the share.
"""

import dataclasses
import io
import itertools
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras import files
from bert_keras.data import text_files
from bert_keras.data.masking import MaskConfig
from bert_keras.data.tokenizer_folder import (
    TOKENIZER_CONFIG,
    VOCABULARIES,
    OpenedTokenizer,
    settings_json,
)
from bert_keras.errors import InputError, warn
from bert_keras.tasks.pretraining.config import DomainConfig
from bert_keras.tasks.pretraining.data import make_records
from bert_keras.tasks.pretraining.task import PretrainingConfig, PretrainingTask
from bert_keras.tasks.pretraining.training import pretrain
from bert_keras.tasks.python_training import as_before, one_training
from bert_keras.tasks.results import Results
from bert_keras.tasks.run_context import (
    RunConfig,
    claim_folder,
    find_tokenizer,
    make_devices,
    read_config,
)
from bert_keras.tasks.trainer import Trainer, refuse_other_kind
from bert_keras.training.checkpoints import read_settings, saved_states
from bert_keras.training.config import DeviceConfig

WORK = "domain_data"  # folder under output_dir: texts and records
PARTS = "train", "held_out"  # of the text
REPORT, PICTURE = "report.md", "report.png"
HELD_OUT_EVERY = 20  # documents
EVAL_BATCH_SIZE, MAX_EVAL_STEPS = 32, 100
EVAL_MASKED_LM_PROB = 0.15  # so that scores compare with those of other models
NAMES = {"held_out": "held-out domain text", "general": "general text"}
TEXTS = (
    *(f"{name}.txt" for name in PARTS),
    *(f"{name}.tfrecord" for name in ("train", *NAMES)),
)
TOKENIZER_FILES = *VOCABULARIES, files.MERGES, TOKENIZER_CONFIG


@one_training()
def pretrain_domain(
    input_file: str,
    output_dir: str,
    init_checkpoint: str,
    config: DomainConfig,
    **settings: Any,
) -> str:
    """Trains a model further on text; the same call resumes what was stopped.

    Args:
        settings: others of bert_keras.pretrain, such as train_hours.

    Returns:
        The report, in Markdown, which output_dir/report.md holds too.

    Raises:
        InputError: the text has one document only, or lies where parts of it
            would be written; the vocabulary is not known; or nothing says how
            long to train.
    """
    if not settings.keys() & {"train_hours", "train_tokens", "num_train_steps"}:
        raise InputError(
            "say how long to train: give `train_hours`, `train_tokens` or "
            "`num_train_steps`"
        )
    refuse_other_kind(output_dir, True)
    if steps := settings.get("num_train_steps"):
        # that of the run that resumes, if any, which may be lengthened
        began = read_settings(output_dir)
        warmup = began.get("num_warmup_steps", steps // 10)
        settings.setdefault("num_warmup_steps", warmup)
    run = RunConfig(
        output_dir=output_dir,
        init_checkpoint=init_checkpoint,
        vocab_file=settings.get("vocab_file"),
    )
    model = read_config(run, config.max_seq_length)
    tokenizer = find_tokenizer(run, model)
    if tokenizer is None:
        raise InputError(
            f"`init_checkpoint={init_checkpoint}` has no vocabulary beside it; "
            "give `vocab_file`"
        )
    inputs = {"input_file": text_files.expand_patterns(input_file)}
    if given := config.general_file:
        inputs["general_file"] = text_files.expand_patterns(
            given, "general_file"
        )
    written = [REPORT, *(os.path.join(WORK, f"{name}.txt") for name in PARTS)]
    files.refuse_inputs("output_dir", output_dir, written, **inputs)
    devices = make_devices(DeviceConfig(), output_dir=output_dir)
    with as_before():
        claim_folder(dataclasses.replace(run, do_train=True), devices.host)
        work = _claim_work(
            output_dir, inputs["input_file"], tokenizer.vocab_file
        )
        lengths: dict[str, Any] = {
            "max_seq_length": config.max_seq_length,
            "max_predictions_per_seq": max(
                1, round(config.masked_lm_prob * config.max_seq_length)
            ),
        }
        texts = _split(input_file, config.input_format, work)
        if config.general_file:
            texts["general"] = config.general_file
        records = _make_records(texts, config, lengths, tokenizer, work)
        held_out = {k: x for k, x in records.items() if k != "train"}
        found = {
            "before": _scores(init_checkpoint, held_out, run, lengths, work)
        }
        trained = pretrain(
            records["train"],
            output_dir,
            init_checkpoint,
            evaluation=records["held_out"],
            general_eval_file=records.get("general"),
            learning_rate=config.learning_rate,
            train_batch_size=config.train_batch_size,
            masked_lm_prob=config.masked_lm_prob,
            eval_masked_lm_prob=EVAL_MASKED_LM_PROB,
            eval_steps=config.eval_steps,
            eval_batch_size=EVAL_BATCH_SIZE,
            max_eval_steps=MAX_EVAL_STEPS,
            **lengths,
            **settings,
        )
        found["after"] = _scores(output_dir, held_out, run, lengths, work)
        report = _report(found)
        files.write_whole(os.path.join(output_dir, REPORT), report.encode())
        _draw(trained.history, found, os.path.join(output_dir, PICTURE))
        return report


def _claim_work(
    output_dir: str, input_files: Sequence[str], vocab_file: str
) -> str:
    """Makes the folder of texts and records, where a person's own files are
    moved; returns its path.

    Raises:
        InputError: output_dir has a run on other text.
    """
    work = os.path.join(output_dir, WORK)
    tf.io.gfile.makedirs(work)
    if "://" not in work and not all(map(_may_be_read, input_files)):
        os.chmod(work, 0o700)  # parts of a private text are private
    mark = os.path.join(work, ".made_here")
    domain = "\n".join(files.identities(input_files)).encode()
    made_of = files.content(mark)
    if made_of and made_of != domain and saved_states(output_dir):
        raise InputError(
            f"`output_dir={output_dir}` has a run on other text than "
            "`input_file`; name another folder"
        )
    if made_of is None:
        Results(output_dir).move([REPORT, PICTURE])
        vocab_folder = os.path.dirname(os.path.realpath(vocab_file))
        is_given = vocab_folder == os.path.realpath(work)
        Results(work).move(TEXTS if is_given else TEXTS + TOKENIZER_FILES)
    files.write_whole(mark, domain)
    return work


def _may_be_read(path: str) -> bool:
    """Whether every user may read a file."""
    return "://" in path or bool(os.stat(path).st_mode & stat.S_IROTH)


def _make_records(
    texts: Mapping[str, str],
    config: DomainConfig,
    lengths: Mapping[str, Any],
    tokenizer: OpenedTokenizer,
    work: str,
) -> dict[str, str]:
    """Makes each text's records; returns the files by the texts' names."""
    # with its case beside it, which may stand elsewhere or be given by a name
    vocab_file = files.copy_vocabulary(tokenizer.vocab_file, work)
    files.write_whole(
        os.path.join(work, TOKENIZER_CONFIG), settings_json(tokenizer).encode()
    )
    records = {}
    for name, text in texts.items():
        records[name] = os.path.join(work, f"{name}.tfrecord")
        if files.has_other_names(records[name]):
            files.remove(records[name])  # what a link leads to is not ours
        make_records(
            text,
            records[name],
            vocab_file,
            input_format=config.input_format,
            dynamic_masking=True,
            dupe_factor=1,
            sequence_format="full_sentences",
            text_field=config.text_field,
            **lengths,
        )
    return records


def _split(input_file: str, input_format: str, folder: str) -> dict[str, str]:
    """Writes every twentieth document, from the second on, to a file of its
    own; returns the files by name."""
    paths = text_files.expand_patterns(input_file)
    texts = {name: os.path.join(folder, f"{name}.txt") for name in PARTS}
    is_jsonl = input_format == "jsonl"
    number = 0
    with (
        files.writing(texts["train"], "output_dir") as train,
        files.writing(texts["held_out"], "output_dir") as held_out,
    ):
        for document in _documents(paths, is_jsonl):
            file = held_out if number % HELD_OUT_EVERY == 1 else train
            end = "" if is_jsonl else "\n"
            file.write(f"{document}\n{end}".encode())
            number += 1
    if number < 2:
        raise InputError(
            f"`input_file={input_file}` has {number} of at least two "
            "documents, one of which is held out; put a blank line between "
            "documents, or give one file for each"
        )
    return texts


def _documents(paths: Sequence[str], is_jsonl: bool) -> Iterator[str]:
    """Each ends at a blank line or with a file; of JSON, with a line."""
    for path in paths:
        lines = text_files.read_lines(path)
        for blank, part in itertools.groupby(lines, lambda x: not x.strip()):
            if not blank:
                texts = (line.rstrip("\n") for line in part)
                yield from texts if is_jsonl else ["\n".join(texts)]


def _scores(
    model_dir: str,
    records: Mapping[str, str],
    run: RunConfig,
    lengths: Any,
    work: str,
) -> dict[str, dict[str, float]]:
    """The metrics of a model on records, by their names. A masked-LM head that
    it lacks is new, beside the embeddings that it shares."""
    found = {}
    run = dataclasses.replace(
        run,
        output_dir=os.path.join(work, "evaluation"),
        init_checkpoint=model_dir,
    )
    devices = make_devices(DeviceConfig(), output_dir=run.output_dir)
    for name, path in records.items():
        print(f"evaluating {model_dir} on {NAMES[name]}")
        config = PretrainingConfig(
            path,
            path,
            do_eval=True,
            eval_batch_size=EVAL_BATCH_SIZE,
            max_eval_steps=MAX_EVAL_STEPS,
            masks=MaskConfig(
                lengths["max_predictions_per_seq"], EVAL_MASKED_LM_PROB
            ),
            max_seq_length=lengths["max_seq_length"],
        )
        with as_before():
            task = PretrainingTask(devices, run, config)
            trainer = Trainer(task, task.context, config.seed)
            trainer.load_start(model_dir)
            found[name] = task.evaluate(trainer)
    return found


def _report(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A row for each text and model: accuracy, loss and pseudo-perplexity of
    masked tokens (Salazar et al. 2020, here of 15 % at a time)."""
    lines = [
        "| text | model | masked accuracy, % | masked loss, nats | "
        "pseudo-perplexity |",
        "|---|---|---|---|---|",
    ]
    for name in next(iter(found.values())):
        for when, scores in found.items():
            accuracy = 100.0 * scores[name]["masked_lm_accuracy"]
            loss = scores[name]["masked_lm_loss"]
            lines.append(
                f"| {NAMES[name]} | {when} | {accuracy:.1f} | {loss:.3f} | "
                f"{math.exp(loss):,.1f} |"
            )
    return "\n".join(lines) + "\n"


def _draw(
    history: Sequence[Mapping[str, float]],
    found: Mapping[str, Mapping[str, Mapping[str, float]]],
    path: str,
) -> None:
    """The masked loss in training, and on held-out and general text before and
    on the way."""
    try:
        import matplotlib
    except ImportError:
        warn(f"{path} is not drawn: pip install matplotlib")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    steps = [line["step"] for line in history]
    losses = [line["masked_lm_loss"] for line in history]
    axes.plot(steps, losses, lw=0.5, label="training")
    on_the_way = {
        "held_out": "eval_masked_lm_loss",
        "general": "eval_general_masked_lm_loss",
    }
    for text, before in found["before"].items():
        name, points = on_the_way[text], [(0.0, before["masked_lm_loss"])]
        points += [(x["step"], x[name]) for x in history if name in x]
        axes.plot(*zip(*points, strict=True), "o-", label=NAMES[text])
    axes.set(xlabel="step", ylabel="masked loss (nats)")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    pyplot.close(figure)
    files.write_whole(path, drawn.getvalue())

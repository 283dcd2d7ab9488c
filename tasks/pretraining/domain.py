"""pretrain_domain.py's work: a model learns the language of a corpus, and a
report says what that gave and what it cost.

Gururangan et al. 2020 ("Don't stop pretraining") call this domain-adaptive
pre-training. Wettig et al. 2022 ("Should you mask 15 %?") for the share.
"""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras import files
from bert_keras.data import text_files, work_folder
from bert_keras.data.corpus import TextFormat
from bert_keras.data.input_pipeline import count_records
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
from bert_keras.tasks.pretraining.task import (
    PretrainingConfig,
    PretrainingTask,
    warn_of_shared,
)
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
from bert_keras.tasks.run_settings import refuse_other_kind
from bert_keras.tasks.trainer import Trainer
from bert_keras.training.checkpoints import (
    read_settings,
    saved_states,
    step_of,
)
from bert_keras.training.config import DeviceConfig

WORK = "domain_data"  # folder under output_dir: texts and records
PARTS = "train", "held_out"  # of the text
MADE_OF = ".made_of.json"  # what the texts and records there were made of
GENERAL = "general_"  # before the names of metrics on general text
REPORT, PICTURE = "report.md", "report.png"
HELD_OUT_EVERY = 20  # documents
EVAL_BATCH_SIZE, MAX_EVAL_STEPS = 32, 100
EVAL_MASKED_LM_PROB = 0.15  # so that scores compare with those of other models
FEW_CHARACTERS = 25_000  # of which some thousand tokens are masked
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
    trained_on = str(read_settings(output_dir).get("input_file"))
    is_ours = os.path.join(WORK, "train.tfrecord") in trained_on
    if saved_states(output_dir) and not is_ours:
        raise InputError(
            f"`output_dir={output_dir}` has a run of another command; name "
            "another folder"
        )
    if steps := settings.get("num_train_steps"):
        # that of the run that resumes, if any, which may be lengthened
        began = read_settings(output_dir)
        warmup = began.get("num_warmup_steps", steps // 10)
        settings.setdefault("num_warmup_steps", warmup)
    run = RunConfig(
        output_dir=output_dir,
        init_checkpoint=init_checkpoint,
        vocab_file=settings.get("vocab_file"),
        precision=settings.get("precision", RunConfig.precision),
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
    text_format = TextFormat(config.input_format, config.text_field)
    for paths in inputs.values():
        text_format.check(paths)
    general = inputs.get("general_file", [])
    warn_of_shared(inputs["input_file"], general_file=general)
    written = [REPORT, *(os.path.join(WORK, f"{name}.txt") for name in PARTS)]
    files.refuse_inputs("output_dir", output_dir, written, **inputs)
    devices = make_devices(DeviceConfig(), output_dir=output_dir)
    if devices.host.count > 1:
        raise InputError(
            "pretrain_domain runs on one host; on several, make records and "
            "give them to run_pretraining.py, with recipes/domain.flags"
        )
    num_replicas = devices.strategy.num_replicas_in_sync
    rows = math.ceil(EVAL_BATCH_SIZE / num_replicas) * num_replicas
    share = max(config.masked_lm_prob, EVAL_MASKED_LM_PROB)
    most = config.max_seq_length - 2  # [CLS] and [SEP] are never masked
    lengths: dict[str, Any] = {
        "max_seq_length": config.max_seq_length,
        "max_predictions_per_seq": min(
            most, max(1, round(share * config.max_seq_length))
        ),
    }
    with as_before():
        claim_folder(dataclasses.replace(run, do_train=True), devices.host)
        texts = _texts(inputs, config, tokenizer, output_dir)
        records = _make_records(texts, config, lengths, tokenizer, output_dir)
        number, _ = count_records([records["train"]])
        steps = max(1, number // config.train_batch_size)
        print(
            f"{number:,} records to train on: a pass has {steps:,} steps of "
            f"{config.train_batch_size}"
        )
        held_out = {k: x for k, x in records.items() if k != "train"}
        before = _scores(run, held_out, rows, lengths)
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
            eval_batch_size=rows,
            max_eval_steps=MAX_EVAL_STEPS,
            best_metric="masked_lm_loss",
            **lengths,
            **settings,
        )
        mark = os.path.join(output_dir, WORK, MADE_OF)
        since = files.read_json(mark)["general_since"]
        seen = {0: before, **_evaluations(trained.history, since)}
        report = _report(seen, _by_text(trained.metrics))
        files.write_whole(os.path.join(output_dir, REPORT), report.encode())
        _draw(trained.history, seen, os.path.join(output_dir, PICTURE))
        return report


def _texts(
    inputs: Mapping[str, Sequence[str]],
    config: DomainConfig,
    tokenizer: OpenedTokenizer,
    output_dir: str,
) -> dict[str, str]:
    """The parts of the text, and the general text, by name.

    They stay as they are until something else is asked for: then what was made
    of them counts for nothing.

    Raises:
        InputError: output_dir has a run on other text, or one with other
            records.
    """
    work = os.path.join(output_dir, WORK)
    tf.io.gfile.makedirs(work)
    if "://" not in work and not all(map(_may_be_read, inputs["input_file"])):
        os.chmod(work, 0o700)  # parts of a private text are private
    mark = os.path.join(work, MADE_OF)
    made_of: dict[str, Any] = {"general_file": None}
    for argument, paths in inputs.items():
        made_of[argument] = [*map(list, files.versions(paths))]
    made_of |= {
        "input_format": config.input_format,
        "text_field": config.text_field,
        "max_seq_length": config.max_seq_length,
        "masked_lm_prob": config.masked_lm_prob,
        "vocab_file": work_folder.digest_of_files(tokenizer.vocab_file),
    }
    if not files.exists(mark):
        Results(output_dir).move([REPORT, PICTURE])
        vocab_folder = os.path.dirname(os.path.realpath(tokenizer.vocab_file))
        is_given = vocab_folder == os.path.realpath(work)
        Results(work).move(TEXTS if is_given else TEXTS + TOKENIZER_FILES)
        files.write_json(mark, {})
    was_made_of = files.read_json(mark, "delete its folder to begin anew")
    changed = [n for n, x in made_of.items() if was_made_of.get(n) != x]
    others = [name for name in changed if name != "general_file"]
    if others and was_made_of and saved_states(output_dir):
        raise InputError(
            f"`output_dir={output_dir}` has a run with other "
            f"`{'`, `'.join(others)}`; name another folder"
        )
    texts = {name: os.path.join(work, f"{name}.txt") for name in PARTS}
    has_parts = all(map(files.exists, texts.values()))
    if others or not has_parts:
        files.write_json(mark, {})  # until both parts are whole
        _split(inputs["input_file"], config, texts)
    for name in (*PARTS, "general"):
        if others or name == "general" and changed:
            records = os.path.join(work, f"{name}.tfrecord")
            work_folder.discard(work_folder.path_beside(records))
    general_since = was_made_of.get("general_since", 0)
    if "general_file" in changed:
        general_since = max([0, *map(step_of, saved_states(output_dir))])
    files.write_json(mark, made_of | {"general_since": general_since})
    if config.general_file:
        texts["general"] = config.general_file
    return texts


def _may_be_read(path: str) -> bool:
    """Whether every user may read a file."""
    return "://" in path or bool(os.stat(path).st_mode & stat.S_IROTH)


def _make_records(
    texts: Mapping[str, str],
    config: DomainConfig,
    lengths: Mapping[str, Any],
    tokenizer: OpenedTokenizer,
    output_dir: str,
) -> dict[str, str]:
    """Makes each text's records; returns the files by the texts' names."""
    work = os.path.join(output_dir, WORK)
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


def _split(
    paths: Sequence[str], config: DomainConfig, texts: Mapping[str, str]
) -> None:
    """Writes every twentieth document, from the second on, to a file of its
    own. A document that occurs again goes where it went before, so that none
    is both trained on and held out.

    Args:
        texts: the files to write, by the names of the parts.
    """
    part_of: dict[bytes, str] = {}  # by a digest of the document
    number = num_lines = num_characters = 0
    end = "" if config.input_format == "jsonl" else "\n"
    with contextlib.ExitStack() as stack:
        written = {
            name: stack.enter_context(files.writing(path, "output_dir"))
            for name, path in texts.items()
        }
        for text, document in _documents(paths, config):
            is_held_out = len(part_of) % HELD_OUT_EVERY == 1
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            part = part_of.setdefault(digest, PARTS[is_held_out])
            written[part].write(f"{document}\n{end}".encode())
            number += 1
            num_lines += document.count("\n") + 1
            num_characters += len(text) if part == "held_out" else 0
        if len(part_of) < 2:
            advice = (
                "put a blank line between documents, or give one file for each"
            )
            if config.input_format == "jsonl":
                advice = "give more of them, a JSON object a line"
            raise InputError(
                f"`input_file={','.join(paths)}` has {len(part_of)} of at "
                "least two different documents, one of which is held out; "
                f"{advice}"
            )
    num_held_out = len(range(1, len(part_of), HELD_OUT_EVERY))
    print(
        f"{num_held_out:,} of {len(part_of):,} different documents are held "
        f"out, with {num_characters:,} characters"
    )
    if num_characters < FEW_CHARACTERS:
        warn(
            f"{num_characters:,} characters are held out: with fewer than "
            f"{FEW_CHARACTERS:,} the scores say little, and which model is "
            "best is chance"
        )
    if config.input_format == "paragraphs" and num_lines < 1.5 * number:
        warn(
            f"most of the {number:,} documents have one line. If blank lines "
            "separate paragraphs and not documents, what is held out is of "
            "documents that are trained on, and its scores are too good; leave "
            "blank lines between documents alone"
        )


def _documents(
    paths: Sequence[str], config: DomainConfig
) -> Iterator[tuple[str, str]]:
    """The text of each, and what it is in the file. It ends at a blank line or
    with the file; in JSON, with a line."""
    text_format = TextFormat(config.input_format, config.text_field)
    for path in paths:
        found = text_files.read_lines(path, lone_return=text_format.lone_return)
        lines = enumerate(found, 1)
        for blank, part in itertools.groupby(lines, lambda x: not x[1].strip()):
            if blank:
                continue
            if config.input_format != "jsonl":
                text = "\n".join(line.rstrip("\n") for _, line in part)
                yield text, text
                continue
            for number, line in part:
                try:
                    text = text_format.text_of(line)
                except ValueError as error:
                    raise InputError(
                        f"{path}, line {number} {error}"
                    ) from error
                if text.strip():
                    yield text, line.rstrip("\n")


def _scores(
    run: RunConfig,
    records: Mapping[str, str],
    num_rows: int,
    lengths: Mapping[str, Any],
) -> dict[str, Mapping[str, float]]:
    """The metrics of the model to begin with, by the names of records. A
    masked-LM head that it lacks is new, beside the embeddings that it shares.

    Args:
        num_rows: of an evaluation's batch.
    """
    start = str(run.init_checkpoint)
    print(f"evaluating {start}")
    folder = os.path.join(run.output_dir, WORK, "evaluation")
    run = dataclasses.replace(run, output_dir=folder)
    devices = make_devices(DeviceConfig(), output_dir=run.output_dir)
    most, length = lengths["max_predictions_per_seq"], lengths["max_seq_length"]
    config = PretrainingConfig(
        records["held_out"],
        records["held_out"],
        records.get("general"),
        do_eval=True,
        eval_batch_size=num_rows,
        max_eval_steps=MAX_EVAL_STEPS,
        masks=MaskConfig(most, EVAL_MASKED_LM_PROB),
        max_seq_length=length,
    )
    with as_before():
        task = PretrainingTask(devices, run, config)
        trainer = Trainer(task, task.context, config.seed)
        trainer.load_start(start)
        return _by_text(task.evaluate(trainer))


def _by_text(metrics: Mapping[str, float]) -> dict[str, Mapping[str, float]]:
    """The metrics on each text, from those of one evaluation."""
    general = {
        name.removeprefix(GENERAL): value
        for name, value in metrics.items()
        if name.startswith(GENERAL)
    }
    found: dict[str, Mapping[str, float]] = {"held_out": metrics}
    return found | ({"general": general} if general else {})


def _evaluations(
    history: Sequence[Mapping[str, float]], general_since: int
) -> dict[int, dict[str, Mapping[str, float]]]:
    """The metrics on each text, by step.

    Args:
        general_since: the step after which this general text was evaluated.
    """
    found = {}
    for line in history:
        metrics = {
            name.removeprefix("eval_"): value
            for name, value in line.items()
            if name.startswith("eval_")
        }
        if metrics:
            step = int(line["step"])
            found[step] = _by_text(metrics)
            if step <= general_since:
                found[step].pop("general", None)
    return found


def _report(
    seen: Mapping[int, Mapping[str, Mapping[str, float]]],
    after: Mapping[str, Mapping[str, float]],
) -> str:
    """A row for each text and model: before, at each quarter of the steps, and
    the one that is kept. Accuracy, loss and pseudo-perplexity of masked tokens
    (Salazar et al. 2020, here of 15 % at a time)."""
    last = max(seen)
    quarters = {
        max(step for step in seen if step <= last * part / 4)
        for part in range(1, 5)
    }
    rows = {"before": seen[0]}
    rows |= {f"step {x:,}": seen[x] for x in sorted(quarters - {0})}
    rows["after"] = after
    lines = [
        "| text | model | masked accuracy, % | masked loss, nats | "
        "pseudo-perplexity |",
        "|---|---|---|---|---|",
    ]
    for text in seen[0]:
        for when, scores in rows.items():
            if text in scores:
                accuracy = 100.0 * scores[text]["masked_lm_accuracy"]
                loss = scores[text]["masked_lm_loss"]
                lines.append(
                    f"| {NAMES[text]} | {when} | {accuracy:.1f} | {loss:.3f} | "
                    f"{math.exp(loss):,.1f} |"
                )
    return "\n".join(lines) + "\n"


def _draw(
    history: Sequence[Mapping[str, float]],
    seen: Mapping[int, Mapping[str, Mapping[str, float]]],
    path: str,
) -> None:
    """The masked loss in training, and on held-out and general text before and
    on the way."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        warn(f"{path} is not drawn: pip install matplotlib")
        return
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [line["step"] for line in history]
    losses = [line["masked_lm_loss"] for line in history]
    axes.plot(steps, losses, lw=0.5, label="training")
    for text in seen[0]:
        points = {
            step: scores[text]["masked_lm_loss"]
            for step, scores in seen.items()
            if text in scores
        }
        axes.plot([*points], [*points.values()], "o-", label=NAMES[text])
    axes.set(xlabel="step", ylabel="masked loss (nats)")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    files.write_whole(path, drawn.getvalue())

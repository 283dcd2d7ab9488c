"""demo.py's pure parts, with answers worked out by hand."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import demo
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.tfrecords import RecordWriter, encode


def test_sentences_end_before_a_capital() -> None:
    text = "Join two\npaths to one. See e.g. the module os. Is it so? Yes."
    assert list(demo.sentences(text)) == [
        "Join two paths to one.",
        "See e.g. the module os.",
    ]  # "Is it so?" and "Yes." are shorter than four words


def test_sentences_skip_code_and_tables() -> None:
    text = """A paragraph of plain prose.

    >>> join("a", "b c d e") returns a path

    x_expr ::= y_expr | x_expr "+" y_expr | "(" ")"

    Another paragraph of plain prose."""
    assert list(demo.sentences(text)) == [
        "A paragraph of plain prose.",
        "Another paragraph of plain prose.",
    ]


def test_documents_hold_each_sentence_once() -> None:
    a, b, c, d, e, f = (f"This is the sentence {x}." for x in "ABCDEF")
    texts = [f"{a} {b} {a} {c}", f"{b} {d} {e}", f"{a} {f} {d} {e}"]
    # the second has two sentences, too few; the third's D and E were met
    assert demo.documents(texts) == [[a, b, c]]


def test_as_text_puts_a_blank_line_between_documents() -> None:
    assert demo.as_text([["a", "b"], ["c"]]) == "a\nb\n\nc\n"


def test_docstrings_keep_the_order_of_the_source() -> None:
    source = b'''"""One."""
class Two:
    """Two."""
    def three(self):
        """Three."""
def no_docstring():
    return """not one"""
def four():
    """Four."""
'''
    assert demo.docstrings(source) == "One.\n\nTwo.\n\nThree.\n\nFour."


def test_stdlib_sources_leave_out_tests_and_packages(tmp_path: Path) -> None:
    for name in ("a.py", "json/b.py", "json/test/c.py", "site-packages/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = [path.name for path in demo.stdlib_sources(tmp_path)]
    assert names == ["a.py", "b.py"]


def test_guessing_the_commonest() -> None:
    # 5 is commonest in training, and two of the five held-out ids
    assert demo.guess([7, 5, 5, 9], [5, 7, 7, 5, 7]) == (5, 0.4)


def test_answers_leave_out_padding(tmp_path: Path) -> None:
    features = pretraining_features(
        demo.MAX_SEQ_LENGTH, demo.MAX_PREDICTIONS_PER_SEQ
    )
    values = {feature.name: [0] * feature.length for feature in features}
    values["masked_lm_ids"][:2] = [11, 13]
    values["masked_lm_weights"][:2] = [1, 1]
    path = tmp_path / "records"
    with RecordWriter([str(path)]) as writer:
        for label in (1, 0, 1):
            values["next_sentence_labels"] = [label]
            writer.write(encode(features, values))
    assert demo.answers(path) == ([11, 13, 11, 13, 11, 13], [1, 0, 1])


def test_smoothed_is_a_running_mean() -> None:
    assert demo.smoothed([1.0, 3.0, 5.0, 9.0], 2) == [1.0, 2.0, 4.0, 7.0]


def test_entropy() -> None:
    # half of the values have 1 bit, a quarter 2 bits each: 1.5 bits
    assert demo.entropy([5, 5, 7, 9]) == pytest.approx(1.5 * math.log(2))


def test_losses_beside_held_out_text_and_guessing(tmp_path: Path) -> None:
    line = '{"step": %d, "masked_lm_loss": %f, "next_sentence_loss": 0.7}\n'
    lines = [line % (step, 8 - step) for step in range(3)]
    (tmp_path / "train_log.jsonl").write_text("".join(lines))
    (tmp_path / "eval_log.jsonl").write_text(line % (2, 6.5))
    axes = Figure().subplots()
    demo.draw_loss(axes, tmp_path, "masked_lm_loss", "Masked tokens", 6.3)
    training, held_out, guessing = (
        np.array(line.get_xydata()).tolist() for line in axes.get_lines()
    )
    assert training == [[0, 8], [1, 7.5], [2, 7]]  # running means
    assert held_out == [[2, 6.5]]
    assert [y for _, y in guessing] == [6.3, 6.3]
    assert axes.get_title() and axes.get_legend()

    demo.draw_losses(tmp_path, [5, 5, 7, 9], tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_python_text_is_plenty_and_always_the_same() -> None:
    texts = demo.python_texts()
    some = demo.documents(itertools.islice(texts, 600))
    again = demo.documents(itertools.islice(demo.python_texts(), 150))
    assert again and again == some[: len(again)]
    assert sum(map(len, some)) > 5_000
    assert next(texts)  # there is more


def test_a_new_recipe_removes_nothing_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "python_texts", lambda: iter([]))
    Path("elsewhere").mkdir()
    demo.FOLDER.symlink_to("elsewhere")
    for name in ("my_classifier", "model"):
        (demo.FOLDER / name).mkdir()
        (demo.FOLDER / name / "weights").touch()
    for name in (".recipe", ".model.finished", "train.tfrecord"):
        (demo.FOLDER / name).touch()
    demo.prepare()
    kept = {"my_classifier", "train.txt", "held_out.txt", "bert_config.json"}
    assert {path.name for path in demo.FOLDER.iterdir()} == {*kept, ".recipe"}
    assert (demo.FOLDER / "my_classifier" / "weights").exists()

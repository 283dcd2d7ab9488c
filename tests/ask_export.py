"""Asks a SavedModel, as a server without this project would; run by a test.

    python -I -S ask_export.py PACKAGES SAVED_MODEL QUESTIONS.npz ANSWERS.npz

PACKAGES is the folder where TensorFlow is installed; without Python's own look
into it (-S), an editable installation of this project is not seen. Questions
are arrays QUESTION/SIGNATURE/INPUT. Each is asked in two ways: of what
tf.saved_model.load returns, and in a session, as TensorFlow Serving does.
Answers are arrays WAY/QUESTION/OUTPUT.
"""

import collections
import importlib.util
import sys
from collections.abc import Callable, Iterator

sys.path.append(sys.argv.pop(1))

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray]
Ask = Callable[[str, Arrays], Arrays]


def main(folder: str, questions_file: str, answers_file: str) -> None:
    questions: dict[tuple[str, str], Arrays] = collections.defaultdict(dict)
    for key, value in np.load(questions_file).items():
        question, signature, name = key.split("/")
        questions[question, signature][name] = value
    answers = {}
    for way, ask in ways(folder):
        for (question, signature), inputs in questions.items():
            for name, value in answer(ask, signature, inputs).items():
                answers[f"{way}/{question}/{name}"] = value
    np.savez(answers_file, allow_pickle=False, **answers)
    assert importlib.util.find_spec("bert_keras") is None, "it is here"


def answer(ask: Ask, signature: str, inputs: Arrays) -> Arrays:
    """Text in NumPy's form on either side, which needs no pickle."""
    encoded = {
        name: np.char.encode(x, "utf-8").astype(object)
        if x.dtype.kind == "U"
        else x
        for name, x in inputs.items()
    }
    outputs = ask(signature, encoded)
    return {
        name: np.char.decode(x.astype("S"), "utf-8") if x.dtype == object else x
        for name, x in outputs.items()
    }


def ways(folder: str) -> Iterator[tuple[str, Ask]]:
    loaded = tf.saved_model.load(folder)

    def ask_loaded(signature: str, inputs: Arrays) -> Arrays:
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        outputs = loaded.signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    yield "loaded", ask_loaded
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], folder)

        def ask_session(signature: str, inputs: Arrays) -> Arrays:
            definition = meta.signature_def[signature]
            return session.run(
                {name: x.name for name, x in definition.outputs.items()},
                {definition.inputs[n].name: x for n, x in inputs.items()},
            )

        yield "session", ask_session


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Which rows of a checkpoint's classifier belong to the labels in use here.

Every kind of classifier lies at the root of Google's names, as output_weights
[C, H] and output_bias [C]; their shapes do not say for which labels the
rows are.
"""

from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    open_weights,
)
from bert_keras.modeling.hugging_face import is_hugging_face
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.label_names import are_generic, order_of, shown
from bert_keras.tasks.task_config import TaskConfig

NAMES = (f"{CLASSIFIER}output_weights", f"{CLASSIFIER}output_bias")
# Fields of TaskConfig: what a head answers, and from which outputs.
KIND = ("target", "bilstm", "second_direction", "feature_layers")


class OtherHeadError(InputError):
    """A checkpoint's classifier is not one for the labels here."""


def head_rows(
    mappings: Sequence[VariableMapping],
    path: str,
    settings: TaskConfig | None,
    other_names: tuple[str, ...] = (),
    is_kept: bool = False,
) -> list[int] | None:
    """Which row of a checkpoint's classifier each of the model's is.

    Args:
        mappings: of the model.
        path: as `init_checkpoint` names it.
        settings: what the model answers; None: it has no classifier.
        other_names: for its labels, in the same order.
        is_kept: `keep_classifier_head`.

    Returns:
        For each row of the model's classifier, the number of the
        checkpoint's; None if they are the same, or there is no classifier.

    Raises:
        OtherHeadError: the classifier is for something else; the sentence
            says why.
    """
    if settings is None:
        return None
    shapes = open_weights(path).shapes
    own = {b.name: b.shape for b in mappings if b.name in NAMES}
    pairs = [(own[n], tuple(shapes[n])) for n in own if n in shapes]
    if not pairs:
        return None
    theirs = folder_task(path, quietly=True)
    order = None
    if theirs is not None:
        order = order_of(theirs.labels, settings.labels, other_names)
    fits = all(one == other for one, other in pairs)
    reason = "" if is_kept else _other_kind(path, theirs, settings, order)
    if reason and fits and settings.labels:
        reason += " (`keep_classifier_head` keeps it all the same)"
    if not fits and not reason:
        one, other = map(list, pairs[0])
        reason = f"in the checkpoint it is {other}, and here {one}"
        if settings.labels:
            reason += f", with the labels {shown(settings.labels)}"
    if reason:
        raise OtherHeadError(reason)
    if is_kept or not settings.labels:
        return None
    in_order = order or range(len(settings.labels))
    names = [x for _, x in sorted(zip(in_order, settings.labels, strict=True))]
    if theirs is None:
        print(
            "the checkpoint does not name its labels: they are taken to be "
            f"{shown(names)}, in this order"
        )
    elif are_generic(theirs.labels) and theirs.labels != settings.labels:
        print(
            "the checkpoint's labels have no names (LABEL_0, ...): they "
            f"are taken to be {shown(names)}, in this order"
        )
    return order


def _other_kind(
    path: str,
    theirs: TaskConfig | None,
    settings: TaskConfig,
    order: list[int] | None,
) -> str:
    """Why a checkpoint's classifier is not one for these settings; "" if it
    is."""
    if theirs is None:
        if not is_hugging_face(path):
            return ""  # Google's do not say what they are for
        return (
            "the checkpoint's config.json does not say what its classifier "
            "is for"
        )
    for name in KIND:
        one, other = getattr(settings, name), getattr(theirs, name)
        if one != other:
            return (
                f"the checkpoint was trained with {name} = {other!r}, "
                f"and here it is {one!r}"
            )
    if settings.labels and not order:
        return (
            f"the checkpoint has the labels {shown(theirs.labels)}; "
            f"the data has {shown(settings.labels)}"
        )
    return ""


def without_head(mappings: Sequence[VariableMapping]) -> list[VariableMapping]:
    return [mapping for mapping in mappings if mapping.name not in NAMES]


def reorder(
    mappings: Sequence[VariableMapping], rows: list[int] | None
) -> None:
    """Puts the rows of a loaded classifier where `head_rows` says."""
    for mapping in mappings:
        if mapping.name in NAMES and rows is not None:
            mapping.write(mapping.read()[rows])

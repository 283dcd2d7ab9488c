"""Which rows of a checkpoint's classifier belong to the labels in use here.

Every kind of classifier lies at the root of Google's names, as output_weights
[C, H] and output_bias [C]; their shapes do not say for which labels the
rows are.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True)
class ClassifierHead:
    """What a run's classifier answers."""

    settings: TaskConfig
    other_names: tuple[str, ...] = ()  # for its labels, in the same order
    is_kept: bool = False  # `keep_classifier_head`

    def rows(
        self, mappings: Sequence[VariableMapping], path: str
    ) -> list[int] | None:
        """Which row of the checkpoint's classifier each of ours is.

        Args:
            mappings: of the model.
            path: as `init_checkpoint` names it.

        Returns:
            None if the rows stay as they are, or there is no classifier.

        Raises:
            OtherHeadError: the classifier is for something else; the sentence
                says why.
        """
        shapes = open_weights(path).shapes
        own = {b.name: b.shape for b in mappings if b.name in NAMES}
        pairs = [(own[n], tuple(shapes[n])) for n in own if n in shapes]
        if not pairs:
            return None
        ours, theirs = self.settings, folder_task(path, quietly=True)
        order, reason = None, ""
        if theirs is not None:
            order = order_of(theirs.labels, ours.labels, self.other_names)
            for name in KIND:
                one, other = getattr(ours, name), getattr(theirs, name)
                if one != other and not reason:
                    reason = (
                        f"the checkpoint was trained with {name} = {other!r}, "
                        f"and here it is {one!r}"
                    )
            if ours.labels and not order and not reason:
                reason = (
                    f"the checkpoint has the labels {shown(theirs.labels)}; "
                    f"the data has {shown(ours.labels)}"
                )
        elif is_hugging_face(path):  # others name no labels, as Google's
            reason = (
                "the checkpoint's config.json does not say what its classifier "
                "is for"
            )
        fits = all(one == other for one, other in pairs)
        if self.is_kept:
            reason = ""
        elif reason and fits and ours.labels:
            reason += " (`keep_classifier_head` keeps it all the same)"
        if not fits and not reason:
            one, other = map(list, pairs[0])
            reason = f"in the checkpoint it is {other}, and here {one}"
            if ours.labels:
                reason += f", with the labels {shown(ours.labels)}"
        if reason:
            raise OtherHeadError(reason)
        if self.is_kept or theirs is None or not ours.labels:
            return None
        if are_generic(theirs.labels) and theirs.labels != ours.labels:
            print(
                "the checkpoint's labels have no names (LABEL_0, ...): they "
                f"are taken to be {shown(ours.labels)}, in this order"
            )
        return order


def without_head(mappings: Sequence[VariableMapping]) -> list[VariableMapping]:
    return [binding for binding in mappings if binding.name not in NAMES]


def reorder(
    mappings: Sequence[VariableMapping], rows: list[int] | None
) -> None:
    """Puts the rows of a loaded classifier where `ClassifierHead.rows` says."""
    for binding in mappings:
        if binding.name in NAMES and rows is not None:
            binding.write(binding.read()[rows])

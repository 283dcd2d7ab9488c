"""BERT for TensorFlow and Keras 3: pre-train, fine-tune, predict, export.

Names are imported when they are used: a script that needs a config alone does
not wait for TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras.data.record_dataset import record_dataset as record_dataset
    from bert_keras.errors import InputError as InputError
    from bert_keras.modeling.config import BertConfig as BertConfig
    from bert_keras.modeling.encoder import Encoder as Encoder
    from bert_keras.modeling.heads import LinearHead as LinearHead
    from bert_keras.modeling.heads import MaskedLmHead as MaskedLmHead
    from bert_keras.tasks.classification.model import (
        TextClassifier as TextClassifier,
    )
    from bert_keras.tasks.classification.training import (
        train_classifier as train_classifier,
    )
    from bert_keras.tasks.load import load as load
    from bert_keras.tasks.multiple_choice.model import (
        MultipleChoice as MultipleChoice,
    )
    from bert_keras.tasks.multiple_choice.training import (
        train_multiple_choice as train_multiple_choice,
    )
    from bert_keras.tasks.ner.model import TokenClassifier as TokenClassifier
    from bert_keras.tasks.ner.training import (
        train_token_classifier as train_token_classifier,
    )
    from bert_keras.tasks.pretraining.data import (
        build_vocabulary as build_vocabulary,
    )
    from bert_keras.tasks.pretraining.data import make_records as make_records
    from bert_keras.tasks.pretraining.model import MaskedLm as MaskedLm
    from bert_keras.tasks.pretraining.model import Pretraining as Pretraining
    from bert_keras.tasks.pretraining.training import pretrain as pretrain
    from bert_keras.tasks.squad.model import (
        QuestionAnsweringModel as QuestionAnsweringModel,
    )
    from bert_keras.tasks.squad.training import (
        train_question_answering as train_question_answering,
    )

_MODULES = {
    "BertConfig": "modeling.config",
    "Encoder": "modeling.encoder",
    "InputError": "errors",
    "LinearHead": "modeling.heads",
    "MaskedLm": "tasks.pretraining.model",
    "MaskedLmHead": "modeling.heads",
    "MultipleChoice": "tasks.multiple_choice.model",
    "Pretraining": "tasks.pretraining.model",
    "QuestionAnsweringModel": "tasks.squad.model",
    "TextClassifier": "tasks.classification.model",
    "TokenClassifier": "tasks.ner.model",
    "build_vocabulary": "tasks.pretraining.data",
    "load": "tasks.load",
    "make_records": "tasks.pretraining.data",
    "pretrain": "tasks.pretraining.training",
    "record_dataset": "data.record_dataset",
    "train_classifier": "tasks.classification.training",
    "train_multiple_choice": "tasks.multiple_choice.training",
    "train_question_answering": "tasks.squad.training",
    "train_token_classifier": "tasks.ner.training",
}
__all__ = list(_MODULES)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(
        importlib.import_module(f"{__name__}.{_MODULES[name]}"), name
    )


def __dir__() -> list[str]:
    return [*globals(), *__all__]

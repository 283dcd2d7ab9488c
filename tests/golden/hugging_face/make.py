"""Writes what lies beside this file, with Hugging Face transformers.

    pip install transformers==5.23.0 torch
    python tests/golden/hugging_face/make.py

Models of random weights, as `save_pretrained` writes them, each with what
transformers computes: outputs.npz holds the inputs as `in_*` and the rest by
the name of the output.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
ROWS, LENGTH = 3, 11
TAGS = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}
MODELS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "pretraining": (transformers.BertForPreTraining, "gelu", {}),
    "classifier": (
        transformers.BertForSequenceClassification,
        "gelu_new",
        {
            "id2label": {0: "no", 1: "yes", 2: "perhaps"},
            "problem_type": "single_label_classification",
        },
    ),
    "span": (transformers.BertForQuestionAnswering, "gelu", {}),
    "roberta_masked_lm": (transformers.RobertaForMaskedLM, "gelu", {}),
    "roberta_classifier": (
        transformers.RobertaForSequenceClassification,
        "gelu",
        {"id2label": {0: "no", 1: "yes", 2: "perhaps"}},
    ),
    "roberta_bare": (transformers.RobertaModel, "gelu", {}),
    "distilbert_masked_lm": (transformers.DistilBertForMaskedLM, "gelu", {}),
    "distilbert_classifier": (
        transformers.DistilBertForSequenceClassification,
        "gelu",
        {"id2label": {0: "no", 1: "yes", 2: "perhaps"}},
    ),
    "distilbert_span": (
        transformers.DistilBertForQuestionAnswering,
        "gelu_new",
        {},
    ),
    "distilbert_bare": (transformers.DistilBertModel, "gelu", {}),
    # whose rows are the choices of one question
    "choice": (transformers.BertForMultipleChoice, "gelu", {}),
    "roberta_choice": (transformers.RobertaForMultipleChoice, "gelu", {}),
    "distilbert_choice": (
        transformers.DistilBertForMultipleChoice,
        "gelu",
        {},
    ),
    "tagger": (transformers.BertForTokenClassification, "gelu", TAGS),
    "roberta_tagger": (
        transformers.RobertaForTokenClassification,
        "gelu",
        TAGS,
    ),
    "distilbert_tagger": (
        transformers.DistilBertForTokenClassification,
        "gelu",
        TAGS,
    ),
    "modernbert_bare": (transformers.ModernBertModel, "gelu", {}),
    "modernbert_masked_lm": (
        transformers.ModernBertForMaskedLM,
        "gelu_pytorch_tanh",
        {},
    ),
    "modernbert_classifier": (
        transformers.ModernBertForSequenceClassification,
        "gelu",
        {
            "id2label": {0: "no", 1: "yes", 2: "perhaps"},
            "classifier_pooling": "mean",
        },
    ),
    "modernbert_choice": (transformers.ModernBertForMultipleChoice, "gelu", {}),
    "modernbert_tagger": (
        transformers.ModernBertForTokenClassification,
        "gelu",
        TAGS,
    ),
    "modernbert_span": (
        transformers.ModernBertForQuestionAnswering,
        "gelu",
        {},
    ),
}
ATTENTIONS = (
    "pretraining", "roberta_bare", "distilbert_bare", "modernbert_bare",
)  # fmt: skip
DISTILBERT = {  # what its config.json calls them
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
MODERNBERT = {  # two global layers around a local one, which sees two a side
    "num_hidden_layers": 3,
    "global_attn_every_n_layers": 2,
    "local_attention": 4,
    "global_rope_theta": 500.0,
    "local_rope_theta": 70.0,
    "pad_token_id": 0,
    **dict.fromkeys(
        ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1
    ),
}
ROBERTA = {  # what its released models have
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
PADDING = 1


def main() -> None:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    for name, (kind, activation, more) in MODELS.items():
        is_roberta = name.startswith("roberta")
        values: dict[str, Any] = {
            "vocab_size": 37,
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 19,
            "max_position_embeddings": 23,
            "type_vocab_size": 2,
            "hidden_act": activation,
        }
        values |= more
        if is_roberta:
            values |= ROBERTA
        is_distilbert = name.startswith("distilbert")
        is_modernbert = name.startswith("modernbert")
        if is_modernbert:
            values |= MODERNBERT
            values["hidden_activation"] = values.pop("hidden_act")
        if is_distilbert or is_modernbert:
            del values["type_vocab_size"]
        if is_distilbert:
            for ours, theirs in DISTILBERT.items():
                values[theirs] = values.pop(ours)
        config = kind.config_class(**values)
        model = kind(config).eval()
        # A ModernBERT's layers add up.
        mean, std = (0.1, 0.3) if is_modernbert else (0.3, 0.5)
        for parameter in model.parameters():  # biases and norms too
            torch.nn.init.normal_(parameter, mean, std)
        model.save_pretrained(HERE / name)
        lengths = rng.integers(3, LENGTH + 1, ROWS)[:, None]
        inputs = {
            "input_ids": rng.integers(0, 37, (ROWS, LENGTH)),
            "attention_mask": (np.arange(LENGTH) < lengths).astype(int),
            "token_type_ids": rng.integers(0, 2, (ROWS, LENGTH)),
        }
        if is_distilbert or is_modernbert:
            del inputs["token_type_ids"]
        if is_roberta:  # where a row ends is told from the ids
            inputs["token_type_ids"][:] = 0
            words = np.maximum(inputs["input_ids"], PADDING + 1)
            is_word = inputs["attention_mask"] == 1
            inputs["input_ids"] = np.where(is_word, words, PADDING)
        tensors = {key: torch.tensor(value) for key, value in inputs.items()}
        if name.endswith("choice"):
            tensors = {key: value[None] for key, value in tensors.items()}
        with torch.no_grad():
            outputs = dict(model(**tensors, output_hidden_states=True))
        hidden = outputs.pop("hidden_states")
        arrays: dict[str, Any] = {
            "hidden_states": np.stack([state.numpy() for state in hidden]),
            **{f"in_{key}": value for key, value in inputs.items()},
            **{key: value.numpy() for key, value in outputs.items()},
        }
        np.savez_compressed(HERE / name / "outputs.npz", **arrays)
        if name in ATTENTIONS:
            _write_attentions(model, tensors, HERE / name)


def _write_attentions(
    model: Any, tensors: dict[str, Any], folder: Path
) -> None:
    """Probabilities [L, B, N, S, T], in a file of their own."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**tensors, output_attentions=True).attentions
    stacked = np.stack([layer.numpy() for layer in found])
    np.savez_compressed(folder / "attentions.npz", attentions=stacked)


if __name__ == "__main__":
    main()

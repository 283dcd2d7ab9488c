import keras_hub
import numpy as np

model = keras_hub.models.BertMaskedLM.from_preset("pretrained")
tokenizer, model.preprocessor = model.preprocessor.tokenizer, None
before, after = "The sky is [MASK].".split("[MASK]")
ids = np.concatenate(
    [
        [tokenizer.cls_token_id],
        tokenizer(before),
        [tokenizer.mask_token_id],
        tokenizer(after),
        [tokenizer.sep_token_id],
    ]
)
place = 1 + len(tokenizer(before))
logits = model.predict(
    {
        "token_ids": ids[None],
        "segment_ids": np.zeros_like(ids)[None],
        "padding_mask": np.ones_like(ids)[None],
        "mask_positions": np.array([[place]]),
    },
    verbose=0,
)
ids[place] = logits[0, 0].argmax()
print(tokenizer.detokenize(ids[1:-1]))

import keras_hub
import numpy as np

encoder = keras_hub.models.BertBackbone.from_preset("pretrained")
preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
    "pretrained", sequence_length=16
)
batch = preprocessor(np.array(["The sky is blue.", "Blue is the sky."]))
hidden = encoder.predict(batch, verbose=0)["sequence_output"]
mask = np.array(batch["padding_mask"])[..., None]
print(((hidden * mask).sum(1) / mask.sum(1)).shape)

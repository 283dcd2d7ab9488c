import csv

import keras
import keras_hub
import numpy as np

with open("reviews.csv", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
texts = np.array([row["text"] for row in rows])
labels = np.array([int(row["label"]) for row in rows])
preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
    "pretrained", sequence_length=64
)
model = keras_hub.models.BertTextClassifier.from_preset(
    "pretrained", num_classes=2, preprocessor=preprocessor
)
model.compile(
    keras.optimizers.AdamW(5e-5),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
print(model.fit(texts, labels, batch_size=32, epochs=1).history["loss"][-1])
model.save_to_preset("out/keras_hub")

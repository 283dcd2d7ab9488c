import bert_keras

model = bert_keras.train_classifier(
    "reviews.csv",
    "pretrained",
    "out/here",
    max_seq_length=64,
    num_train_epochs=1,
    learning_rate=5e-5,
)
print(model.history[-1]["loss"])

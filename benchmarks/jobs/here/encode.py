import bert_keras

model = bert_keras.load("pretrained")
print(model.encode(["The sky is blue.", "Blue is the sky."]).shape)

import bert_keras

model = bert_keras.load("pretrained")
print(model.fill("The sky is [MASK].").text)

import bert_keras

model = bert_keras.load("classifier")
print(model.predict("What a film!").label)

import bert_keras

model = bert_keras.load("reader")
print(model.answer("What is blue?", "The sky is blue and wide.").answer)

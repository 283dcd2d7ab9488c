from transformers import pipeline

answer = pipeline("question-answering", "reader")
found = answer(question="What is blue?", context="The sky is blue and wide.")
print(found["answer"])

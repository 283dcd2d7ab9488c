from transformers import pipeline

classify = pipeline("text-classification", "classifier")
print(classify("What a film!")[0]["label"])

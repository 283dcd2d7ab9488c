from transformers import pipeline

fill = pipeline("fill-mask", "pretrained")
print(fill("The sky is [MASK].")[0]["sequence"])

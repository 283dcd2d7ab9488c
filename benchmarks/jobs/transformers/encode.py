import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("pretrained")
model = AutoModel.from_pretrained("pretrained")
texts = ["The sky is blue.", "Blue is the sky."]
batch = tokenizer(texts, padding=True, return_tensors="pt")
with torch.no_grad():
    hidden = model(**batch).last_hidden_state
mask = batch["attention_mask"].unsqueeze(-1)
print(((hidden * mask).sum(1) / mask.sum(1)).shape)

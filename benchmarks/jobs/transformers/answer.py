import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("reader")
model = AutoModelForQuestionAnswering.from_pretrained("reader")
paragraph = "The sky is blue and wide."
batch = tokenizer(
    "What is blue?",
    paragraph,
    return_tensors="pt",
    return_offsets_mapping=True,
)
offsets = batch.pop("offset_mapping")[0]
is_paragraph = torch.tensor([part == 1 for part in batch.sequence_ids()])
with torch.no_grad():
    outputs = model(**batch)
start, end = (
    logits[0].where(is_paragraph, -1e9)
    for logits in (outputs.start_logits, outputs.end_logits)
)
first = start.argmax()
last = first + end[first:].argmax()
print(paragraph[offsets[first][0] : offsets[last][1]])

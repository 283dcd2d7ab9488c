from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

data = load_dataset("csv", data_files="reviews.csv")["train"]
tokenizer = AutoTokenizer.from_pretrained("pretrained")
model = AutoModelForSequenceClassification.from_pretrained(
    "pretrained", num_labels=2
)
data = data.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
)
arguments = TrainingArguments(
    "out/transformers",
    num_train_epochs=1,
    per_device_train_batch_size=32,
    learning_rate=5e-5,
)
trainer = Trainer(
    model, arguments, train_dataset=data, processing_class=tokenizer
)
print(trainer.train().training_loss)
trainer.save_model()

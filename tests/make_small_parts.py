"""create_pretraining_data.py where a few kilobytes are a large corpus."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.commands import create_pretraining_data
from bert_keras.data import build_records, corpus

if __name__ == "__main__":
    corpus.LEAST_SPAN_BYTES = 1000
    build_records.LEAST_PIECES = 500
    build_records.LEAST_DOCUMENTS = 7
    create_pretraining_data.cli()

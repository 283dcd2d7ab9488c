"""create_pretraining_data.py where a few kilobytes are a large corpus."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import create_pretraining_data
from data import corpus
from jobs import record_making

if __name__ == "__main__":
    corpus.LEAST_SPAN_BYTES = 1000
    record_making.LEAST_PIECES = 500
    record_making.LEAST_DOCUMENTS = 7
    create_pretraining_data.cli()

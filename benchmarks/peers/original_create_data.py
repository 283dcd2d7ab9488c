"""google-research/bert's create_pretraining_data, timed: one JSON line.

For create_data.py, in an environment of Python 3.7 with tensorflow 1.15 and
bert-tensorflow 1.0.4, which holds the same code. Takes that script's flags. The
seconds are those of its main, after all imports.
"""

import json
import sys
import time

import tensorflow as tf
from bert import create_pretraining_data


def main() -> None:
    flags = tf.flags.FLAGS
    flags(sys.argv)
    tf.logging.set_verbosity(tf.logging.ERROR)
    start = time.perf_counter()
    create_pretraining_data.main([])
    seconds = time.perf_counter() - start
    num_records = sum(
        1
        for path in flags.output_file.split(",")
        for _ in tf.python_io.tf_record_iterator(path)
    )
    print(json.dumps({"records": num_records, "seconds": seconds}))


if __name__ == "__main__":
    main()

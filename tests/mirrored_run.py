"""run_pretraining.py on two replicas of one CPU, for the tests.

The command itself makes replicas of GPUs, of which a test machine has none.
"""

import sys
from pathlib import Path
from unittest import mock

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.commands import run_pretraining
from bert_keras.tasks import run_context

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
with mock.patch.object(
    run_context, "make_strategy", return_value=strategy
) as asked:
    try:
        run_pretraining.cli()  # exits
    finally:
        asked.assert_called_once()

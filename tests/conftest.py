"""What every test shares."""

import os

# Before the first import of TensorFlow: only its errors are of interest here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

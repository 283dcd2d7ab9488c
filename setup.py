"""Packaging. Packages and modules are named one by one: nothing is guessed."""

from setuptools import setup

COMMANDS = (
    "build_vocab",
    "convert_checkpoint",
    "create_pretraining_data",
    "export_model",
    "export_tflite",
    "extend_vocab",
    "extract_features",
    "inspect_records",
    "pack_records",
    "predict",
    "run_classifier",
    "run_multiple_choice",
    "run_ner",
    "run_pretraining",
    "run_squad",
    "show_attention",
)
PLOT = ["matplotlib"]

setup(
    name="bert-keras",
    version="0.1.0",
    description="BERT for TensorFlow 2 and Keras 3, with google-research/bert's"
    " commands, files and numbers",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=["data", "jobs", "modeling", "tasks", "training"],
    package_data={"jobs": ["attention_page.html"]},
    py_modules=[
        "command",
        "common_flags",
        "files",
        "fine_tuning_command",
        "folder_lock",
        "input_error",
        *COMMANDS,
    ],
    install_requires=[
        "absl-py",
        "google-crc32c",
        "keras>=3.12",  # 3.12 is the last Keras for Python 3.10
        "ml-dtypes",
        "numpy",
        "protobuf",
        "safetensors",
        "scikit-learn",
        "scipy",
        "sentencex",
        "tensorboard",  # TensorFlow 2.21 no longer brings it
        "tensorflow>=2.20,<2.22",
        # for speed alone; it has no wheels for Windows
        "tensorflow-text>=2.20,<2.22; platform_system != 'Windows'",
        "tokenizers",
        "tqdm",
    ],
    extras_require={
        # Not in "test", whose other tests would then run beside the older
        # protobuf that it asks for.
        "beam": ["apache-beam>=2.77"],
        # No "tpu": tensorflow-tpu would lie in the same folder as tensorflow,
        # which pip writes over it. README.md says how to install for a TPU.
        "gpu": ["tensorflow[and-cuda]"],
        "plot": PLOT,
        "test": [
            *PLOT,
            "ai-edge-litert",
            "hypothesis",
            "jax",
            "mypy",
            "pre-commit",
            "pytest",
            "pytest-xdist",
            "ruff",
        ],
    },
    entry_points={
        "console_scripts": [f"{name} = {name}:cli" for name in COMMANDS]
    },
)

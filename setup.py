"""Packaging: one installed name, bert_keras.

The folders of the repository are its packages, by the links in bert_keras/.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
INIT = (ROOT / "bert_keras" / "__init__.py").read_text(encoding="utf-8")

COMMANDS = sorted((ROOT / "bert_keras" / "commands").glob("[!_]*.py"))
PLOT = ["matplotlib"]

setup(
    name="bert-keras",
    version=re.findall('__version__ = "(.+)"', INIT)[0],
    description="BERT for TensorFlow 2 and Keras 3, with google-research/bert's"
    " commands, files and numbers",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="bert roberta distilbert modernbert tensorflow keras nlp "
    "pre-training fine-tuning question-answering named-entity-recognition",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["bert_keras", "bert_keras.*"]),
    package_data={
        "bert_keras": ["py.typed"],
        "bert_keras.tasks": ["attention_page.html"],
    },
    install_requires=[
        "absl-py",
        "google-crc32c",
        "keras>=3.12",  # 3.12 is the last Keras for Python 3.10
        "ml-dtypes",
        "numpy",
        "protobuf",
        "safetensors",
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
        # mkdocs 2 will not read these plugins and this configuration
        "docs": ["mkdocs<2", "mkdocs-material<10", "mkdocstrings[python]"],
        # No "tpu": tensorflow-tpu would lie in the same folder as tensorflow,
        # which pip writes over it. docs/how_to/cloud_tpu.md says how to.
        "gpu": ["tensorflow[and-cuda]"],
        "plot": PLOT,
        "test": [
            *PLOT,
            "ai-edge-litert",
            "fastapi",
            "hypothesis",
            "ipykernel",
            "jax",
            "mypy",
            "nbclient",
            "pre-commit",
            "pytest",
            "pytest-xdist",
            "ruff",
            "scipy",
            "uvicorn",
        ],
    },
    entry_points={
        "console_scripts": [
            f"{path.stem} = bert_keras.commands.{path.stem}:cli"
            for path in COMMANDS
        ]
    },
)

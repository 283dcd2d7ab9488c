"""What every command shares: absl flags in; a sentence and exit code 1 on bad input.

Heavy imports (TensorFlow, Keras) belong inside a command's `main`, so that
`--help` and a mistyped flag answer at once.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from absl import app, flags

from input_error import InputError

Settings = TypeVar("Settings")


def run(main: Callable[[], None]) -> None:
    """Parses the flags, calls `main()` and turns an InputError into exit 1.

    Unknown flags are refused by absl, with the nearest known name. (Google's
    tf.app.run ignores them, so that a typing error trains with a default.)
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1:
            _fail(f"unexpected argument {argv[1]!r}; flags begin with --")
        try:
            main()
        except InputError as error:
            _fail(str(error))

    app.run(guarded)


def from_flags(settings: type[Settings], **values: Any) -> Settings:
    """Fills a dataclass from `values` and the flags named like its fields."""
    assert dataclasses.is_dataclass(settings)
    from_command_line = {
        field.name: flags.FLAGS[field.name].value
        for field in dataclasses.fields(settings)
        if field.name in flags.FLAGS
    }
    return settings(**(from_command_line | values))


def _fail(sentence: str) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {sentence}", file=sys.stderr)
    sys.exit(1)

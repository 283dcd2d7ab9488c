"""What commands share.

Ctrl-C ends a command without a traceback from here on: commands import this
package first of all.
"""

import os
import sys
from types import TracebackType

INTERRUPTED = 130  # exit code, as shells count
_show = sys.excepthook


def is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C led to this error: a library that is being imported may
    raise one of its own for it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if is_interrupt(error):
        os._exit(INTERRUPTED)
    _show(kind, error, trace)


# Not in a program of somebody else's that imports a command
_name = os.path.basename(sys.argv[0]).removesuffix(".py")
_commands = os.path.join(os.path.dirname(os.path.dirname(__file__)), "commands")
if os.path.exists(os.path.join(_commands, f"{_name}.py")):
    sys.excepthook = _end

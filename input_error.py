"""The one error that commands print as a sentence instead of a traceback."""


class InputError(ValueError):
    """Bad input from a person: a file, a flag or a combination of them.

    The message is one sentence that says what was found, what was expected
    and which flag or file to change. `command.run` prints it and exits with 1.
    """


def first_line(error: Exception) -> str:
    """Of what another library says, to be part of that sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]

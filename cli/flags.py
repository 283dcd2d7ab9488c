"""A command's flags: one table, which absl parses and people read.

Each command has a `Flags` of its own, so that several commands can be imported
by one process, and run in it one after the other. cli/reference.py shows the
table as `--help` and as a page of the reference.
"""

import dataclasses
import difflib
import enum
import math
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import flags, logging  # noqa: F401 (which has flags, too)

from bert_keras.errors import InputError
from bert_keras.tasks.keyword_settings import BOUNDS, CHOICES, Made, make

# Ends of the names of flags that name files or folders
FILES = ("_file", "_dir", "_checkpoint", "_json", "_png")
HELP = {"help": "h", "helpshort": None, "helpfull": None}
BYTES = "[\udc80-\udcff]"  # as Python keeps those that are not UTF-8


class Group(enum.Enum):
    """What a flag is about, in the order in which --help shows the groups."""

    REQUIRED = "Required"
    ACTIONS = "What to do"
    DATA = "Data"
    MASKING = "Masking"
    MODEL = "Model"
    TOKENIZER = "Tokenizer"
    TRAINING = "Training"
    OPTIMIZER = "Optimizer"
    DISTILLATION = "Distillation"
    EVALUATION = "Evaluation"
    PREDICTION = "Prediction"
    CHECKPOINTS = "Checkpoints"
    OUTPUT = "Output"
    SPEED = "Speed and memory"
    TPU = "Cloud TPU"
    COMPATIBILITY = "Kept for compatibility, no effect"


class Flag(NamedTuple):
    """A flag: a row of the table.

    Attributes:
        given: the default; or a type, where there is none; or the dataclass
            that has both, in its field of this name.
        help: a sentence that can be read alone.
        lower, upper, choices: where they are not those of the Python argument
            of this name.
        alias: another name that is understood.
    """

    name: str
    given: Any
    group: Group
    help: str
    lower: float | None = None
    upper: float | None = None
    choices: Sequence[str] = ()
    alias: str | None = None

    @property
    def default(self) -> Any:
        if not isinstance(self.given, type):
            return self.given
        return getattr(self.given, self.name, None)

    @property
    def kind(self) -> type:
        """str, bool, int, float or list."""
        kind = self.given
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind)[self.name]
            kind = (typing.get_args(kind) or (kind,))[0]  # int | None
            kind = typing.get_origin(kind) or kind  # list[str]
        return kind if isinstance(kind, type) else type(kind)

    @property
    def bounds(self) -> str:
        """What may be given: "at least 1", "one of a, b"; "": anything."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.lower is None:
            return ""
        if self.upper is None:
            return f"at least {self.lower:g}"
        return f"{self.lower:g} to {self.upper:.10g}"

    @property
    def shown_default(self) -> str:
        if self.default in (None, []):
            return ""
        text = str(self.default)
        return text.lower() if self.kind is bool else text


def _with_bounds(flag: Flag) -> Flag:
    if flag.lower is not None or flag.upper is not None or flag.choices:
        return flag
    lower, upper = BOUNDS.get(flag.name, (None, None))
    choices = CHOICES.get(flag.name, ())
    return flag._replace(lower=lower, upper=upper, choices=choices)


class Flags(flags.FlagValues):
    """The flags of one command, which `parse` fills.

    FLAGS.name is a flag's value; FLAGS["name"].present, whether it was given.
    """

    table: tuple[Flag, ...]

    def __init__(self, *table: Flag) -> None:
        super().__init__()
        table = tuple(map(_with_bounds, table))
        self.__dict__["table"] = table  # what is set by a dot is a flag
        for flag in table:
            common: Any = {"flag_values": self, "help": flag.help}
            common |= {"name": flag.name, "default": flag.default}
            bounds: Any = {"lower_bound": flag.lower, "upper_bound": flag.upper}
            if flag.choices:
                flags.DEFINE_enum(enum_values=list(flag.choices), **common)
            elif flag.kind is bool:
                flags.DEFINE_bool(**common)
            elif flag.kind is int:
                flags.DEFINE_integer(**common, **bounds)
            elif flag.kind is float:
                flags.DEFINE_float(**common, **bounds)
            elif flag.kind is list:
                flags.DEFINE_list(**common)
            else:
                flags.DEFINE_string(**common)
            if flag.alias:
                flags.DEFINE_alias(flag.alias, flag.name, self)
        for name, short in HELP.items():
            flags.DEFINE_bool(name, False, "", self, short_name=short)
        for absls in flags.FLAGS.get_flags_for_module("absl.logging"):
            self[absls.name] = absls

    def parse(self, argv: Sequence[str]) -> list[str]:
        """Takes the values from `argv`, which begins with the command's name;
        returns what follows the flags.

        Unknown flags are refused with the nearest known name. (Google's
        tf.app.run ignores them, so that a typing error trains with a default.)

        Raises:
            InputError: a flag is not known, or has no such values.
        """
        self.unparse_flags()
        try:
            return self(argv)[1:]
        except flags.UnrecognizedFlagError as error:
            near = difflib.get_close_matches(error.flagname, self, n=1)
            raise InputError(
                f"unknown flag --{error.flagname}; "
                + (f"did you mean --{near[0]}?" if near else "see --help")
            ) from error
        except (flags.Error, ValueError) as error:
            raise InputError(str(error).removeprefix("flag ")) from error

    def check(self) -> None:
        """Raises an InputError if a value is missing or cannot be used; names
        of local files lose their file://."""
        needed = [f.name for f in self.table if f.group is Group.REQUIRED]
        missing = [f"--{x}" for x in needed if self[x].value is None]
        if missing:
            *names, last = missing
            shown = f"{', '.join(names)} and {last}" if names else last
            raise InputError(
                f"{shown} {'are' if names else 'is'} missing; --help tells "
                "what each flag means"
            )
        for name in needed:
            if name.endswith("_dir") and self[name].value == "":
                # TensorFlow's name of where one is
                raise InputError(
                    f"--{name} is empty; name a folder, or . for the one you "
                    "are in"
                )
        for name, value in self.flag_values_dict().items():
            # absl's bounds let infinity through
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"--{name}={value} is not a finite number")
            if isinstance(value, str) and name.endswith(FILES):
                # Only so are two names of one file known to be one.
                local = re.sub(r"(^|,)file://(?=/)", r"\1", value)
                if local != value:
                    self[name].value = value = local
            if isinstance(value, str) and re.search(BYTES, value):
                raise InputError(
                    f"--{name}={value} is not UTF-8, in which TensorFlow takes "
                    "the names of files; rename it"
                )

    def make(self, kind: type[Made], stored: Any = None, **others: Any) -> Made:
        """Fills a dataclass, and those in its fields, from `others` and the
        flags named like the fields.

        Args:
            stored: whose fields stand in for flags that are not given.
        """
        given = {
            name: getattr(stored, name)
            if hasattr(stored, name) and not self[name].present
            else self[name].value
            for name in self
        }
        return make(kind, given, **others)

    def given_text(self) -> str:
        """The flags that were given, as a --flagfile that repeats the command.

        Those left out stay so: commands refuse some flags that change nothing.
        Of a value that such a file cannot hold, it says so.
        """
        given = [self[f.name] for f in self.table if self[f.name].present]
        lines = []
        for flag in given:
            line = flag.serialize()
            if line != " ".join(line.splitlines()).strip():
                line = f"# not in a file: --{flag.name}={flag.value!r}"
            lines.append(line)
        return "\n".join(filter(None, lines)) + "\n"

    def groups(self) -> Iterator[tuple[Group, list[Flag]]]:
        """Yields each group with its flags, unless it has none."""
        for group in Group:
            if found := [flag for flag in self.table if flag.group is group]:
                yield group, found

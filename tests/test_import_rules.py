"""The arrows between rooms, and which framework each room may know.

commands -> jobs -> tasks, modeling, data, training; tasks -> modeling, data;
nothing else, and inside a package only upwards in the order listed here.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ORDER = {
    "data": "marks added_tokens tokenization byte_level_bpe vocabulary"
    " tokenizers tokenizer_folder pieces"
    " masking record_features instances record_hints sequences sampling rows"
    " packing batches vector_batches dynamic_masking next_pieces files wire"
    " records record_checks salvage shuffled_records pipeline"
    " graph_tokenization fast_tokenization byte_level_lines text_formats corpus"
    " counting readable record_report text_report",
    "modeling": "hugging_face_names safetensors_files config fused attention"
    " encoder heads hugging_face conversion combined any_model"
    " cost",
    "tasks": "metrics task entities lessons label_names hugging_face_task"
    " json_files examples targets packed parts pretraining distillation taught"
    " blanks classification glue tables features sentence_pooling spans squad"
    " windows answers squad_evaluation conll tagged_json word_rows tagging"
    " feature_tagging"
    " multiple_choice choice_files line_predictor line_kinds predictors"
    " attention_maps",
    "training": "settings optimization cloud_tpu distribution checkpoints"
    " progress bad_steps stopping loop watching inference export",
    "jobs": "start_checks classifier_head best_model results fitting"
    " training_records distilling dry_run language_modeling training_data"
    " fine_tuning classifying answering choosing recognizing vectors"
    " word_vectors frozen_encoder serving inspecting work_folder workers"
    " chunked_file making record_making beam_making attention_views",
}
MAY_IMPORT = {
    "data": set(),
    "modeling": set(),
    "tasks": {"data", "modeling"},
    "training": set(),
    "jobs": {"tasks", "modeling", "data", "training"},
}
KNOWS_TENSORFLOW = {
    "data.corpus",
    "data.dynamic_masking",
    "data.fast_tokenization",
    "data.files",
    "data.graph_tokenization",
    "data.next_pieces",
    "data.pipeline",
    "data.record_checks",
    "data.records",
    "data.salvage",
    "modeling.conversion",
    "modeling.fused",
    "modeling.hugging_face",
}
ROOMS = {
    f"{package}.{path.stem}": path
    for package in ORDER
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py"
}
TOP_LEVEL = {path.stem: path for path in sorted(ROOT.glob("*.py"))}
SHARED = {
    "command",
    "common_flags",
    "files",
    "fine_tuning_command",
    "folder_lock",
    "input_error",
}


def imported(path: Path) -> Iterator[str]:
    """Yields what each import names: a.b for `from a import b`."""
    yield from named(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The same of the imports among nodes of a tree."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def refusals(room: str, path: Path) -> Iterator[str]:
    """Yields the imports of a room of a package that break the arrows."""
    package, module = room.split(".", 1)
    order = ORDER[package].split()
    above = {f"{package}.{name}" for name in order[: order.index(module)]}
    for name in imported(path):
        top = name.split(".")[0]
        if top == package:
            allowed = ".".join(name.split(".")[:2]) in above
        elif top in ORDER:
            allowed = top in MAY_IMPORT[package]
        elif top == "tensorflow":
            allowed = (
                package in ("training", "jobs") or room in KNOWS_TENSORFLOW
            )
        elif top == "keras":
            allowed = package != "data"
        elif name.startswith("absl.flags") or top in TOP_LEVEL:
            shared = {"files", "folder_lock", "input_error"}
            shared |= {"command"} if package == "jobs" else set()
            allowed = top in shared
        else:
            allowed = True
        if not allowed:
            yield f"{room} imports {name}"


def test_every_room_has_its_place_in_the_order() -> None:
    known = {
        f"{p}.{name}" for p, names in ORDER.items() for name in names.split()
    }
    assert set(ROOMS) <= known


def test_rooms_import_only_what_the_arrows_allow() -> None:
    broken = [r for room, path in ROOMS.items() for r in refusals(room, path)]
    assert broken == []


def test_commands_import_no_other_command() -> None:
    broken = [
        f"{name} imports {target}"
        for name, path in TOP_LEVEL.items()
        for target in imported(path)
        if target.split(".")[0] in TOP_LEVEL.keys() - SHARED
    ]
    assert broken == []


def test_what_takes_long_is_imported_where_it_is_used() -> None:
    slow = {"matplotlib", "scipy", "sklearn"}
    slow_for_help = slow | {"tensorflow", "keras", "jax", "jobs", "modeling"}
    for path in [*ROOMS.values(), *TOP_LEVEL.values()]:
        refused = slow_for_help if path in TOP_LEVEL.values() else slow
        top = ast.parse(path.read_text(encoding="utf-8")).body
        names = {name.split(".")[0] for name in named(top)}
        assert not names & refused, path


def test_names_of_modules_say_something() -> None:
    names = [room.split(".")[-1] for room in ROOMS] + list(TOP_LEVEL)
    assert "utils" not in names

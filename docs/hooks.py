"""Makes pages when mkdocs builds the site: the start page, which is README.md,
and a reference page for each command."""

import re
from pathlib import Path

from bert_keras.cli.reference import COMMANDS, command_page

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def start_page() -> str:
    """README.md with links as they are inside docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("](benchmarks/RESULTS.md)", "](explanation/results.md)")
    text = re.sub(r"\[([^]]+)\]\((CONTRIBUTING.md|LICENSE)\)", r"\1", text)
    return text.replace("](docs/", "](")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {"index.md": start_page()} | {
        f"reference/commands/{name}.md": command_page(name) for name in COMMANDS
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_post_page(output: str, **kwargs: object) -> str:
    """Takes out the one script that the theme would fetch from elsewhere,
    which lets pages be searched that are opened from the disk."""
    return re.sub(r'<script src="https://[^"]+"></script>', "", output)


def on_post_template(output_content: str, **kwargs: object) -> str:
    return on_post_page(output_content)

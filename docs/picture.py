"""Make the README's picture: what ``clearhead look`` prints, as an SVG that needs no network.

python docs/picture.py [docs/look.svg]
"""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

SENTENCE = "The animal did not cross the street because it was tired."
ASKED = ["look", SENTENCE, "--token", "it"]
WIDTH = 90

FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main(target: Path) -> None:
    """Run the command as a person would, in colour, and draw its answer."""
    environment = {
        **os.environ,
        "COLUMNS": str(WIDTH),
        "FORCE_COLOR": "1",
        "COLORTERM": "truecolor",
        "TERM": "xterm-256color",
    }
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "clearhead", *ASKED]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    console = Console(
        record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text(f'$ clearhead look "{SENTENCE}" --token it\n', style="bold"))
    console.print(Text.from_ansi(answer.stdout.split("\n· ")[0]))
    target.write_text(console.export_svg(title="clearhead look", code_format=FORMAT))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("look.svg"))

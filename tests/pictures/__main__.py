"""python -m tests.pictures: draw the pictures of docs/pictures.md again."""

from tests.pictures.pages import pictures

for path, svg in pictures().items():
    path.write_text(svg, encoding="utf-8", newline="\n")
    print(path.name)

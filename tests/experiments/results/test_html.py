"""Tables of the command line as HTML."""

import re

from rich.table import Table

from experiments.results.formats import RULE, html_of


def table(title: str | None = None, **options: bool) -> Table:
    made = Table(title=title, **options)  # type: ignore[arg-type]
    made.add_column("what")
    made.add_column("how\nmuch", justify="right")
    made.add_row("first", "1")
    made.add_section()
    made.add_row("second", "2")
    made.add_row("third", "3")
    return made


def bare(html: str) -> str:
    return re.sub(r' style="[^"]*"', "", html)


def test_a_table_with_its_head_and_title() -> None:
    rows = [("first", "1"), ("second", "2"), ("third", "3")]
    body = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    head = "<thead><tr><th>what</th><th>how\nmuch</th></tr></thead>"
    assert bare(html_of([table("a & b")])) == (
        f"<div><table><caption>a &amp; b</caption>{head}<tbody>{body}</tbody></table></div>"
    )
    assert bare(html_of([table(show_header=False)])) == (
        f"<div><table><tbody>{body}</tbody></table></div>"
    )


def test_numbers_to_the_right_and_lines_between_sections() -> None:
    html = html_of([table()])
    cells = dict(re.findall(r'<td style="text-align: (\w+);[^"]*">(\w+)<', html)[::-1])
    assert cells == {"left": "first", "right": "1"}
    ruled = [RULE in row for row in re.findall(r"<tr([^>]*)><td", html)]
    assert ruled == [True, True, False]  # under the head, and above the second section
    headless = html_of([table(show_header=False)])
    assert [RULE in row for row in re.findall(r"<tr([^>]*)><td", headless)] == [False, True, False]


def test_sentences_are_paragraphs_and_nothing_in_them_is_markup() -> None:
    assert bare(html_of(["", "a < b\nc", " \n"])) == "<div><p>a &lt; b\nc</p></div>"

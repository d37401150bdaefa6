"""What people read, as a document: lines, tables, notices and figures under headings.

``modelzoo.document.content`` has its parts. The other modules show it: in a terminal, as Markdown, as an HTML page and,
a table by itself, as CSV. Whatever a part contains (markup, line breaks, control characters) is shown as text.
"""

from modelzoo.document.content import (
    Block,
    Column,
    Command,
    Details,
    Figure,
    Line,
    Lines,
    Notice,
    Notices,
    Page,
    Pictures,
    Rows,
    Section,
    Table,
    Tone,
    columns_of,
    first_line,
    known,
    lines,
    named,
)

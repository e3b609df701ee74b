"""Tables as data: rows of named columns from a file, a folder, a data frame or plain arrays become a dataset."""

from lspc.data.tables.columns import parse_columns
from lspc.data.tables.dataset import check_table, open_table
from lspc.data.tables.proposal import propose_columns
from lspc.data.tables.reading import import_arrow, read_arrow, read_in_parts
from lspc.data.tables.table import Column, Table, Unusable, add_file_column, check_same_columns, join_tables

__all__ = [
    "Column",
    "Table",
    "Unusable",
    "add_file_column",
    "check_same_columns",
    "check_table",
    "import_arrow",
    "join_tables",
    "open_table",
    "parse_columns",
    "propose_columns",
    "read_arrow",
    "read_in_parts",
]

"""DataFrames of other libraries, where a collection of elements is expected."""

from __future__ import annotations

from typing import Final

from penstock.errors import ArgumentTypeError

# By the package of the class: what makes rows of it. Its own iteration gives columns, or their names.
_ROWS: Final = {
    "pandas": "df.itertuples(index=False, name=None)",
    "polars": "df.iter_rows()",
    "pyarrow": "map(tuple, df.to_pandas().itertuples(index=False))",
}
_PANDAS: Final = {
    "pandas": "df",
    "polars": "df.to_pandas()",
    "pyarrow": "df.to_pandas()",
}
READ_FROM_SPARK: Final = "read it as a table: t_env.from_spark(df)"


def refuse_data_frame(value: object, method: str) -> None:
    """Refuse a DataFrame as the elements of a stream or table, and say how to pass its rows. None of these libraries is imported."""
    for kind in type(value).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "pyspark" and kind.__name__ == "DataFrame":
            raise ArgumentTypeError(
                f"{method}() takes a collection of elements, got a pyspark DataFrame",
                hint=f"{READ_FROM_SPARK}, or as a stream: env.from_spark(df)",
            )
        if package in _ROWS and kind.__name__ in {"DataFrame", "LazyFrame", "Table"}:
            collected = "df.collect()" if kind.__name__ == "LazyFrame" else "df"
            rows, frame = (texts[package].replace("df", collected, 1) for texts in (_ROWS, _PANDAS))
            raise ArgumentTypeError(
                f"{method}() takes a collection of elements, got a {package} {kind.__name__}",
                hint=f"convert it to a table with t_env.from_pandas({frame}), or pass its rows: {method}({rows})",
            )

"""Connection and execution options of databases, as in PyFlink."""

from __future__ import annotations

from typing import Self

from penstock.connectors.jdbc.urls import JdbcDatabase, parse_url
from penstock.errors import ArgumentError, ArgumentTypeError


def whole_number(value: object, what: str, least: int) -> int:
    """Return an integer of at least `least`; `what` names it in the error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{what} is not an integer", detail=f"got {value!r}")
    if value < least:
        raise ArgumentError(f"{what} is less than {least}", detail=f"got {value}")
    return value


def text(value: object, what: str) -> str:
    """Return a non-empty str; `what` names it in the error."""
    if not isinstance(value, str):
        raise ArgumentTypeError(
            f"{what} is not a str", detail=f"its type is {type(value).__name__}"
        )
    if not value:
        raise ArgumentError(f"{what} is empty")
    return value


class JdbcConnectionOptions:
    """Address and credentials of a database.

    >>> options = (
    ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    ...     .with_url("jdbc:postgresql://localhost:5432/shop")
    ...     .with_driver_name("org.postgresql.Driver")
    ...     .with_user_name("me")
    ...     .with_password("secret")
    ...     .build()
    ... )
    >>> options
    JdbcConnectionOptions('postgresql://localhost:5432/shop')
    """

    def __init__(
        self,
        url: str,
        driver_name: str | None = None,
        user_name: str | None = None,
        password: str | None = None,
        connection_check_timeout_seconds: int = 60,
    ) -> None:
        self._url = url
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password
        self._timeout = connection_check_timeout_seconds
        self._target = parse_url(url, user_name, password)

    @property
    def target(self) -> JdbcDatabase:
        """The database in the form of its driver."""
        return self._target

    @property
    def timeout_seconds(self) -> int:
        """The connection timeout."""
        return self._timeout

    def get_db_url(self) -> str:
        """Return the URL as it was given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the driver's name as given; it has no effect, as the URL determines the driver."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user's name as it was given."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password as it was given."""
        return self._password

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self._target.name!r})"

    class JdbcConnectionOptionsBuilder:
        """Builds JdbcConnectionOptions. Only the URL is required."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None
            self._timeout = 60

        def with_url(self, url: str) -> Self:
            """Set the URL, in the format of JDBC (`jdbc:postgresql://host:5432/database`), libpq or SQLAlchemy."""
            parse_url(url)
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> Self:
            """Set the name of a Java class, which has no effect."""
            self._driver_name = text(driver_name, "the driver's name")
            return self

        def with_user_name(self, user_name: str) -> Self:
            """Set the user; overrides the URL's."""
            self._user_name = text(user_name, "the user's name")
            return self

        def with_password(self, password: str) -> Self:
            """Set the password; overrides the URL's."""
            if not isinstance(password, str):
                raise ArgumentTypeError(
                    "the password is not a str", detail=f"its type is {type(password).__name__}"
                )
            self._password = password
            return self

        def with_connection_check_timeout_seconds(self, seconds: int) -> Self:
            """Set the connection timeout (60 s)."""
            self._timeout = whole_number(seconds, "the timeout of connections in seconds", 1)
            return self

        def build(self) -> JdbcConnectionOptions:
            """Build the options."""
            if self._url is None:
                raise ArgumentError(
                    "the URL of the database is missing",
                    hint="call with_url('jdbc:postgresql://host:5432/database')",
                )
            return JdbcConnectionOptions(
                self._url, self._driver_name, self._user_name, self._password, self._timeout
            )


class JdbcExecutionOptions:
    """When batches are sent, and how often they are retried.

    >>> JdbcExecutionOptions.defaults()
    JdbcExecutionOptions(batch_interval_ms=0, batch_size=5000, max_retries=3)
    """

    def __init__(
        self, batch_interval_ms: int = 0, batch_size: int = 5000, max_retries: int = 3
    ) -> None:
        self._batch_interval_ms = whole_number(batch_interval_ms, "the interval of batches", 0)
        self._batch_size = whole_number(batch_size, "the size of batches", 0)
        self._max_retries = whole_number(max_retries, "the number of retries", 0)

    def get_batch_interval_ms(self) -> int:
        """Return after how many milliseconds an incomplete batch is sent; 0: only at checkpoints."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of records per batch; 0: it is sent at checkpoints, and after the interval."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is retried after a temporary failure."""
        return self._max_retries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JdbcExecutionOptions) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._batch_interval_ms, self._batch_size, self._max_retries))

    def __repr__(self) -> str:
        values = ", ".join(f"{name.lstrip('_')}={value}" for name, value in vars(self).items())
        return f"JdbcExecutionOptions({values})"

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return 5000 records per batch, 3 retries, and no interval."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds JdbcExecutionOptions."""

        def __init__(self) -> None:
            self._values: dict[str, int] = {}

        def with_batch_interval_ms(self, batch_interval_ms: int) -> Self:
            """Set after how many milliseconds an incomplete batch is sent."""
            self._values["batch_interval_ms"] = whole_number(
                batch_interval_ms, "the interval of batches", 0
            )
            return self

        def with_batch_size(self, batch_size: int) -> Self:
            """Set the number of records per batch."""
            self._values["batch_size"] = whole_number(batch_size, "the size of batches", 0)
            return self

        def with_max_retries(self, max_retries: int) -> Self:
            """Set how often a batch is retried."""
            self._values["max_retries"] = whole_number(max_retries, "the number of retries", 0)
            return self

        def build(self) -> JdbcExecutionOptions:
            """Build the options."""
            return JdbcExecutionOptions(**self._values)


class JdbcExactlyOnceOptions:
    """Options of exactly-once sinks.

    `transaction_prefix` distinguishes the sink from others that write to the database in the same job: it is part of the
    names of its transactions. The default is derived from the statement and the database. `ledger_table` is where
    transactions record their names, which distinguishes committed transactions from lost ones; its rows are deleted after
    `ledger_retention_days`. `lock_timeout_ms` is how long a barrier waits for rows locked by another transaction, before the
    records are left to the commit.
    """

    def __init__(
        self,
        transaction_prefix: str | None = None,
        ledger_table: str = "penstock_commits",
        ledger_retention_days: int = 30,
        lock_timeout_ms: int = 1000,
    ) -> None:
        if transaction_prefix is not None:
            text(transaction_prefix, "the prefix of transactions")
        self.transaction_prefix = transaction_prefix
        self.ledger_table = text(ledger_table, "the name of the ledger table")
        self.ledger_retention_days = whole_number(
            ledger_retention_days, "the days that the ledger is kept", 1
        )
        self.lock_timeout_ms = whole_number(lock_timeout_ms, "the timeout of locks", 1)

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Return the default options."""
        return JdbcExactlyOnceOptions()

"""EnvironmentSettings: the initial settings of a TableEnvironment."""

from __future__ import annotations

from penstock import options
from penstock.errors.argument_checks import check_instance, check_text
from penstock.options.configuration import Configuration
from penstock.options.option_checks import validate

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


class EnvironmentSettings:
    """Whether queries run over streams or over bounded data, the first catalog, and options.

    >>> EnvironmentSettings.in_batch_mode().is_streaming_mode()
    False
    """

    def __init__(self, configuration: Configuration, catalog: str, database: str) -> None:
        self._configuration = configuration
        self._catalog = catalog
        self._database = database

    @staticmethod
    def new_instance() -> Builder:
        """Start building settings."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return settings for streams."""
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return settings for bounded data: results come once, at the end."""
        return EnvironmentSettings.new_instance().in_batch_mode().build()

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the first catalog."""
        return self._catalog

    def get_built_in_database_name(self) -> str:
        """Return the name of the first database."""
        return self._database

    def is_streaming_mode(self) -> bool:
        """Whether queries run over streams."""
        return self._configuration.get(options.RUNTIME_MODE) == "STREAMING"

    def get_configuration(self) -> Configuration:
        """Return the options."""
        return self._configuration

    class Builder:
        """Settings that are being put together."""

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._mode = "STREAMING"
            self._catalog = DEFAULT_CATALOG
            self._database = DEFAULT_DATABASE

        def with_configuration(self, configuration: Configuration) -> Builder:
            """Set options; unknown ones and values that cannot be read are refused."""
            check_instance(
                configuration,
                Configuration,
                "configuration",
                hint='use Configuration.from_dict({"parallelism.default": "4"})',
            )
            validate(configuration)
            self._configuration.add_all(configuration)
            if configuration.contains(options.RUNTIME_MODE):
                self._mode = configuration.get(options.RUNTIME_MODE)
            return self

        def in_batch_mode(self) -> Builder:
            """Run queries over bounded data."""
            self._mode = "BATCH"
            return self

        def in_streaming_mode(self) -> Builder:
            """Run queries over streams."""
            self._mode = "STREAMING"
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> Builder:
            """Name the first catalog."""
            self._catalog = check_text(built_in_catalog_name, "built_in_catalog_name")
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> Builder:
            """Name the first database."""
            self._database = check_text(built_in_database_name, "built_in_database_name")
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            configuration = Configuration(self._configuration)
            configuration.set(options.RUNTIME_MODE, self._mode)
            return EnvironmentSettings(configuration, self._catalog, self._database)


Builder = EnvironmentSettings.Builder

__all__ = ["EnvironmentSettings"]

"""Catalogs as programs for PyFlink have them."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.errors import PenstockError, UnsupportedOperationError
from penstock.table import EnvironmentSettings, Schema, TableEnvironment
from penstock.table.catalog import (  # type: ignore[attr-defined]
    Catalog,
    CatalogBaseTable,
    CatalogDatabase,
    CatalogDescriptor,
    CatalogFunction,
    HiveCatalog,
    ObjectIdentifier,
    ObjectPath,
)
from penstock.table.udf import udf

TABLE = CatalogBaseTable.create_table(
    Schema.new_builder().column("id", "BIGINT NOT NULL").column("name", "STRING").build(),
    properties={"connector": "datagen", "number-of-rows": "1"},
    comment="made up",
)
twice = udf(lambda number: 2 * number, result_type="BIGINT")


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog("shop", "main")
    made.create_database("other", CatalogDatabase.create_instance({"a": "b"}, "more"), False)
    made.create_table(ObjectPath("main", "orders"), TABLE, False)
    return made


def test_a_catalog_of_the_program_is_used_by_statements(catalog: Catalog) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.register_catalog("shop", catalog)
    env.use_catalog("shop")
    assert env.list_databases() == ["main", "other"]
    assert env.list_tables() == ["orders"]
    with env.execute_sql("DESCRIBE orders").collect() as rows:
        assert [row[0] for row in rows] == ["id", "name"]
    env.execute_sql("CREATE TABLE bills LIKE orders")
    assert catalog.list_tables("main") == ["bills", "orders"]
    assert env.get_catalog("shop") is catalog
    assert env.get_catalog("nowhere") is None


def test_tables_of_a_catalog_are_made_changed_renamed_and_dropped(catalog: Catalog) -> None:
    orders, bills = ObjectPath("main", "orders"), ObjectPath("main", "bills")
    assert catalog.get_table(orders).get_options()["connector"] == "datagen"
    assert catalog.get_table(orders).get_comment() == "made up"
    catalog.create_table(orders, TABLE, True)
    catalog.alter_table(orders, CatalogBaseTable.create_table(TABLE.get_unresolved_schema()), False)
    assert catalog.get_table(orders).get_options() == {}
    catalog.rename_table(orders, "bills", False)
    assert catalog.table_exists(bills)
    assert not catalog.table_exists(orders)
    catalog.drop_table(bills, False)
    catalog.drop_table(bills, True)
    assert catalog.list_tables("main") == catalog.list_views("main") == []


def test_databases_and_functions_of_a_catalog(catalog: Catalog) -> None:
    assert catalog.get_database("other").get_properties() == {"a": "b"}
    catalog.alter_database("other", CatalogDatabase.create_instance({}, "less"), False)
    assert catalog.get_database("other").get_comment() == "less"
    catalog.drop_database("other", False)
    assert not catalog.database_exists("other")
    path = ObjectPath("main", "Twice")
    catalog.create_function(path, CatalogFunction.create_instance(f"{__name__}.twice"), False)
    assert catalog.function_exists(ObjectPath("main", "twice"))
    assert catalog.list_functions("main") == ["twice"]
    assert catalog.get_function(path).kind == "SCALAR"
    catalog.drop_function(path, False)
    assert catalog.list_functions("main") == []


@pytest.mark.parametrize(
    "use",
    [
        lambda catalog: catalog.create_table(ObjectPath("main", "orders"), TABLE, False),
        lambda catalog: catalog.drop_table(ObjectPath("main", "nothing"), False),
        lambda catalog: catalog.get_table(ObjectPath("main", "order")),
        lambda catalog: catalog.list_tables("nowhere"),
        lambda catalog: catalog.create_database("main", CatalogDatabase({}, None), False),
        lambda catalog: catalog.drop_database("nowhere", False),
        lambda catalog: catalog.rename_table(ObjectPath("main", "nothing"), "x", False),
        lambda catalog: catalog.get_function(ObjectPath("main", "f")),
        lambda catalog: catalog.list_partitions(ObjectPath("main", "orders")),
        lambda _: HiveCatalog("hive"),
        lambda _: ObjectPath.from_string("a.b.c"),
    ],
)
def test_unknown_catalog_objects_are_rejected(catalog: Catalog, use: object) -> None:
    with pytest.raises(PenstockError):
        use(catalog)  # type: ignore[operator]


def test_a_catalog_is_described_by_options() -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    options = Configuration.from_dict({"type": "generic_in_memory", "default-database": "d"})
    env.create_catalog("c", CatalogDescriptor.of("c", options, "mine"))
    env.use_catalog("c")
    assert env.get_current_database() == "d"
    with pytest.raises(UnsupportedOperationError, match="has type 'jdbc'"):
        env.create_catalog(
            "x", CatalogDescriptor.of("x", Configuration.from_dict({"type": "jdbc"}))
        )


def test_paths_have_parts() -> None:
    path = ObjectPath.from_string("db.t")
    assert (path.get_database_name(), path.get_object_name(), str(path)) == ("db", "t", "db.t")
    assert path < ObjectPath("db", "u")
    assert path.compare_to(path) == 0
    whole = ObjectIdentifier.of("c", "db", "t")
    assert whole.to_object_path() == path
    assert whole.as_summary_string() == "c.db.t"
    assert str(whole) == "`c`.`db`.`t`"

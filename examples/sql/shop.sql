-- A small shop, made up row by row. Try it: penstock sql --no-spark -i examples/sql/shop.sql

CREATE TABLE orders (
  id BIGINT,
  customer INT,
  product INT,
  price INT,
  at AS LOCALTIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '100',
  'fields.id.min' = '1',
  'fields.id.max' = '1000000000',
  'fields.customer.min' = '1',
  'fields.customer.max' = '20',
  'fields.product.min' = '1',
  'fields.product.max' = '5',
  'fields.price.min' = '1',
  'fields.price.max' = '500'
);

CREATE TEMPORARY VIEW products AS
SELECT * FROM (VALUES (1, 'tea'), (2, 'coffee'), (3, 'cups'), (4, 'honey'), (5, 'spoons')) AS t(product, name);

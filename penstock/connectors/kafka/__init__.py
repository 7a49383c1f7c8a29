"""Apache Kafka: a source and a sink, over librdkafka (`pip install 'penstock-stream[kafka]'`)."""

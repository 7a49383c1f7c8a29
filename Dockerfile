# An image with Penstock, Java and Python: for `penstock run`, a session, or executors of standalone Spark.
#
#   docker build -t penstock .                                                 this source tree
#   docker build -t penstock --build-arg PACKAGE='penstock-stream[kafka]==0.1.0' .    a release, with an extra
#   docker run --rm -v "$PWD:/work" penstock run --no-spark job.py
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/penstock
COPY . /source
ARG PACKAGE=/source
RUN /opt/penstock/bin/pip install --no-cache-dir --no-compile "${PACKAGE}"

FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates openjdk-17-jre-headless procps python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 185 --gid 0 --create-home penstock
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH
USER 185
WORKDIR /work
ENTRYPOINT ["tini", "--", "penstock"]
CMD ["--help"]

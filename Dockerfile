# The image of charts/ascend-owner-guard: `make image`. Every package comes by the lock files' hashes, as a wheel.
# Reproducible as far as Docker goes: name the base by its digest, set SOURCE_DATE_EPOCH, and let the exporter rewrite
# the layers' times (docker buildx build --output type=image,rewrite-timestamp=true).
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONHASHSEED=0
WORKDIR /build
COPY requirements.lock requirements-build.lock ./
# The first environment ships and has neither pip nor setuptools; the second one only builds the project's own wheel.
RUN python -m venv --without-pip /opt/ascend-owner-guard \
    && pip --python /opt/ascend-owner-guard/bin/python install \
        --require-hashes --only-binary=:all: --no-compile -r requirements.lock \
    && python -m venv --without-pip /build/tools \
    && pip --python /build/tools/bin/python install \
        --require-hashes --only-binary=:all: --no-compile -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY webhook ./webhook
COPY certs ./certs
# Seconds since 1970 that every file is dated; 1980 is the earliest that a wheel can say.
ARG SOURCE_DATE_EPOCH=315532800
# Bytecode is bound to no time of change, so that it serves under any; the root file system of the Pod is read-only.
RUN /build/tools/bin/python -c 'from setuptools import build_meta; build_meta.build_wheel("/build/dist")' \
    && pip --python /opt/ascend-owner-guard/bin/python install \
        --no-deps --no-index --no-compile /build/dist/*.whl \
    && python -m compileall -q --invalidation-mode=unchecked-hash /opt/ascend-owner-guard/lib \
    && find /opt/ascend-owner-guard -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ascend-owner-guard" \
      org.opencontainers.image.description="Validating admission webhook: one device-plugin owner for a cluster's Ascend NPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/ascend-owner-guard/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=builder /opt/ascend-owner-guard /opt/ascend-owner-guard
# The user that the chart runs it as; nothing in the image belongs to it.
USER 65532:65532
EXPOSE 8443
# The kubelet probes /healthz and /readyz; Docker's own probe would only double that.
HEALTHCHECK NONE
ENTRYPOINT ["ascend-guard"]
CMD ["--help"]

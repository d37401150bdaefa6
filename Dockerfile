# The suite, on top of one of the environments of pytorch_env/.
#
#   docker buildx bake modelzoo
#   docker buildx build --build-arg ENV_IMAGE=modelzoo:torch2.10.0_acl --build-arg TAG=mine -t modelzoo:mine .
#
# The environment has every package, so that a change of the code is built in seconds.
# ENGINES="onnxruntime openvino" adds engines besides torch.
ARG ENV_IMAGE=environment-${TARGETARCH}
ARG BASE_IMAGE=debian:bookworm-slim
ARG ENGINES=
ARG WEIGHTS=none

# The same base and packages as in pytorch_env/, so that the layer is shared.
FROM --platform=$BUILDPLATFORM ${BASE_IMAGE} AS engine-wheels
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates python3 python3-pip \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
ARG ENGINES TARGETARCH PIP_CERT PIP_INDEX_URL PIP_EXTRA_INDEX_URL
COPY requirements/lock-onnxruntime.txt requirements/lock-openvino.txt pytorch_env/unpack-wheels /build/
RUN --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    for engine in ${ENGINES}; do \
        if [ ! -f "/build/lock-$engine.txt" ]; then \
            echo "ENGINES: no engine $engine; use onnxruntime, openvino or both" >&2; exit 2; \
        fi; \
        /build/unpack-wheels "/build/lock-$engine.txt" "${TARGETARCH}" /opt/engines/site-packages || exit 1; \
    done

# hadolint ignore=DL3006
FROM ${ENV_IMAGE} AS engines

FROM engines AS engines-installed
ARG ENGINES
COPY --from=engine-wheels /opt/engines /opt/engines
RUN packages=$(python3 -c 'import site; print(site.getsitepackages()[0])') \
    && echo /opt/engines/site-packages >"$packages/engines.pth" \
    && for engine in ${ENGINES}; do python3 -c "import $engine" || exit 1; done

# hadolint ignore=DL3006
FROM engines${ENGINES:+-installed} AS code
COPY pyproject.toml LICENSE README.md /modelzoo/
COPY modelzoo /modelzoo/modelzoo
COPY resnet50 /modelzoo/resnet50
COPY ssd /modelzoo/ssd
COPY maskrcnn /modelzoo/maskrcnn
COPY bert /modelzoo/bert
COPY llm /modelzoo/llm
COPY examples /modelzoo/examples
COPY --chmod=755 scripts/container-entrypoint /usr/local/bin/container-entrypoint
# Any user can run it (--user 12345), also on a read-only root: it writes to two volumes only, open to everyone.
RUN packages=$(python3 -c 'import site; print(site.getsitepackages()[0])') \
    && echo /modelzoo >"$packages/modelzoo.pth" \
    && printf '#!/usr/bin/python3\nimport sys\n\nfrom modelzoo.cli import main\n\nsys.exit(main())\n' >/usr/local/bin/modelzoo \
    && chmod 755 /usr/local/bin/modelzoo \
    && useradd --uid 1000 --home-dir /modelzoo/cache --no-create-home --shell /bin/bash modelzoo \
    && mkdir /modelzoo/results /modelzoo/cache /modelzoo/weights \
    && chmod 1777 /modelzoo/results /modelzoo/cache \
    && python3 -m compileall -q /modelzoo
# The home directory is a volume that other containers may write to: Python must not look for packages in it.
ENV HOME=/modelzoo/cache USER=modelzoo XDG_CACHE_HOME=/modelzoo/cache TORCHINDUCTOR_CACHE_DIR=/modelzoo/cache/inductor \
    MODELZOO_RESULTS=/modelzoo/results MODELZOO_WEIGHTS=/modelzoo/weights PYTHONNOUSERSITE=1
WORKDIR /modelzoo

FROM code AS weights-none

FROM code AS weights-pretrained
ARG PIP_CERT
# The cache mount keeps the downloads when the code changes. The links have the names that are looked up in
# MODELZOO_WEIGHTS.
RUN --mount=type=secret,id=ca,target=/run/secrets/ca.pem --mount=type=cache,target=/fetched \
    if [ -f "${PIP_CERT}" ]; then export SSL_CERT_FILE="${PIP_CERT}" REQUESTS_CA_BUNDLE="${PIP_CERT}"; fi \
    && XDG_CACHE_HOME=/fetched HOME=/fetched modelzoo weights fetch \
    && cp -a /fetched /modelzoo/hub && rm -rf /modelzoo/hub/modelzoo \
    && ln -s /modelzoo/hub/torch/hub/checkpoints/*.pth /modelzoo/weights/ \
    && for model in /modelzoo/hub/huggingface/hub/models--*; do \
        ln -s "$model"/snapshots/* "/modelzoo/weights/${model##*--}"; done \
    && modelzoo weights verify

# hadolint ignore=DL3006
FROM weights-${WEIGHTS}
RUN --mount=type=bind,source=pytorch_env/bill-of-materials,target=/usr/local/bin/bill-of-materials \
    bill-of-materials /modelzoo/sbom/image.cdx.json
USER 1000
# Check the image: everything can be imported, fp32 is fp32, and the entry point finds the suite. The mounts discard what
# is written: another user could not write to a cache of this user.
RUN --mount=type=tmpfs,target=/modelzoo/cache --mount=type=tmpfs,target=/tmp \
    python3 -c 'import matplotlib, pycocotools, psutil, rich, threadpoolctl, torch, torchvision, transformers; \
from modelzoo.evidence.canary import run_canary; canary = run_canary(); print(canary.summary); \
assert canary.verdict("fp32") == "fp32", "fp32 is not fp32"' \
    && container-entrypoint --version && container-entrypoint run --help >/dev/null
VOLUME ["/modelzoo/results", "/modelzoo/cache"]
# `docker stop` acts like Ctrl-C: finished runs are kept.
STOPSIGNAL SIGINT
ENTRYPOINT ["container-entrypoint"]
ARG TAG=unnamed
ARG REVISION
ENV MODELZOO_IMAGE=${TAG} MODELZOO_REVISION=${REVISION}
LABEL org.opencontainers.image.title="modelzoo" \
    org.opencontainers.image.description="PyTorch inference on ARM and x86 servers: speed, proof of bf16, validity" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${TAG}" \
    org.opencontainers.image.revision="${REVISION}"

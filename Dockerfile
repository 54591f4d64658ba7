# Portico's image; image/portico.ts says the same for machines without a container engine.
ARG NODE=24.21.0
# Digest of node:${NODE}-bookworm-slim, as @sha256:…; `docker buildx imagetools inspect node:24.21.0-bookworm-slim` tells
# it. None is written here: where this file was made no registry of images could be asked, and one that is made up, or of
# another version, would be worse than none. Pin it in your pipeline: make image ARGS="--build-arg DIGEST=@sha256:…"
ARG DIGEST=

FROM node:${NODE}-bookworm-slim${DIGEST} AS bundle
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
# Without install scripts: they fetch another Node, which the build has no use for.
RUN npm ci --ignore-scripts --no-progress
COPY . .
# Nothing in the image reads the source maps.
RUN node bundle.ts && rm dist/*.map

FROM node:${NODE}-bookworm-slim${DIGEST}
# git: for the git sources of registries. npm and yarn: nothing installs packages at run time.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git \
 && rm -rf /var/lib/apt/lists/* /usr/local/lib/node_modules /usr/local/bin/np[mx] /usr/local/bin/corepack \
      /opt/yarn* /usr/local/bin/yarn*
COPY --chmod=0755 image/portico /usr/local/bin/portico
COPY --from=bundle /src/package.json /app/package.json
COPY --from=bundle /src/dist /app/dist
ENV HOME=/tmp NODE_ENV=production
WORKDIR /app
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/node", "--disable-warning=ExperimentalWarning", "--max-semi-space-size=16", "--no-parallel-scavenge", "/usr/local/bin/portico"]
LABEL org.opencontainers.image.title="portico" org.opencontainers.image.licenses="Apache-2.0"

# Portico's image: what build/image/portico.ts puts together, on nothing else. It says the same for machines without a container
# engine.
ARG NODE=24.21.0
# Digest of node:${NODE}-bookworm-slim, as @sha256:…; `docker buildx imagetools inspect node:24.21.0-bookworm-slim` tells
# it. None is written here: where this file was made no registry of images could be asked, and one that is made up, or of
# another version, would be worse than none. Pin it in your pipeline: make image ARGS="--build-arg DIGEST=@sha256:…"
ARG DIGEST=

FROM node:${NODE}-bookworm-slim${DIGEST} AS build
# git: for the git sources of registries. binutils: its `strip` takes a fifth off Node.
RUN apt-get update && apt-get install --yes --no-install-recommends binutils ca-certificates git
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
# Without install scripts: they fetch another Node, which the build has no use for.
RUN npm ci --ignore-scripts --no-progress
COPY . .
RUN node build/bundle.ts && node build/image/make.ts --folders /image

# A layer each, the one that changes least below.
FROM scratch
COPY --from=build /image/node /
COPY --from=build /image/git /
COPY --from=build /image/portico /
ENV PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp NODE_ENV=production
WORKDIR /app
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/node", "--disable-warning=ExperimentalWarning", "--min-semi-space-size=2", "--max-semi-space-size=16", "--no-parallel-scavenge", "/usr/local/bin/portico"]
LABEL org.opencontainers.image.title="portico" org.opencontainers.image.licenses="Apache-2.0"

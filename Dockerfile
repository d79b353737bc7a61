# The image of trilog. Data lives in one volume, /data; the root file system may be read-only.
#
#   docker build -t trilog .
#   docker compose -f deploy/compose.yaml up

# Debian's C library suits the addons in package-lock.json: they need GLIBC 2.27 for Node 22.
FROM node:22.23.3-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:22.23.3-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build

FROM node:22.23.3-bookworm-slim
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY bin bin
COPY package.json LICENSE ./
RUN install -d -m 700 -o 1000 -g 1000 /data
# An address that is not loopback needs credentials, or TRILOG_ALLOW_INSECURE_BIND=1: without them the start says so.
ENV NODE_ENV=production \
    LOGSTORE_BIND_ADDRESS=0.0.0.0:4318 \
    LOGSTORE_OTLP_GRPC_BIND_ADDRESS=0.0.0.0:4317 \
    OBJSTORE_BIND_ADDRESS=0.0.0.0:9000 \
    MQ_HTTP_BIND=0.0.0.0:7400 \
    TRILOG_CONSOLE_BIND=0.0.0.0:7480 \
    LOGSTORE_DATA_DIR=/data/logstore \
    OBJSTORE_DATA_DIR=/data/objectstore \
    MQ_DATA_DIR=/data/broker
VOLUME /data
EXPOSE 4317 4318 7400 7480 9000
USER 1000:1000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["node", "/app/bin/trilog.js", "health"]
ENTRYPOINT ["node", "--v8-pool-size=0", "/app/bin/trilog.js"]
CMD ["start"]

/**
 * Gets the NATS server that tests of the cluster need, unless one is on the PATH: `npm run nats-server`. Builds it with the Go toolchain into the cache in
 * node_modules, and prints where it is. Exits with 1 when there is no toolchain: the tests are skipped then.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { NATS_CACHE, NATS_VERSION, findNatsServer } from '../test/support/nats-server.ts'

if (findNatsServer() === null) {
  const target = `${NATS_CACHE}/${NATS_VERSION}`
  mkdirSync(target, { recursive: true })
  const { status, error } = spawnSync('go', ['install', `github.com/nats-io/nats-server/v2@v${NATS_VERSION}`], {
    env: { ...process.env, GOBIN: target, GOFLAGS: '-mod=mod' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (error !== undefined || status !== 0) {
    console.log(`nats-server: there is none, and it could not be built: ${error?.message ?? `go ended with ${status}`}`)
    process.exit(1)
  }
}
console.log(findNatsServer())

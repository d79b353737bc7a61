/** Streams that tests open on real NATS servers. */
import type { NatsStream, NatsStreamOptions } from '../../../src/cluster/nats/nats-stream.ts'
import { systemClock } from '../../../src/observability/system-clock.ts'
import { eventually } from '../../support/waiting.ts'

/** Options of a broker's stream on three servers, with the given changes. */
export const streamOptions = (
  connection: NatsStreamOptions['connection'],
  changed: Partial<NatsStreamOptions> = {},
): NatsStreamOptions => ({
  connection,
  cluster: 'test',
  service: 'broker',
  replicas: 3,
  keepBytes: 16 << 20,
  keepMs: null,
  log: null,
  randomUint32: () => 1,
  nowMs: () => performance.now(),
  after: (delayMs, run) => systemClock.wait(delayMs, run),
  ...changed,
})

/** Opens again and again until it succeeds: servers that were just started have to find each other first. */
export async function openedSoon(open: () => Promise<NatsStream>): Promise<NatsStream> {
  let stream: NatsStream | null = null
  await eventually(async () => {
    stream = await open().catch(() => null)
    return stream !== null
  })
  return stream!
}

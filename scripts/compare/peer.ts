/** What is compared, and how a peer is measured through clients of its own. */
import { Histogram } from '../../bench/load/histogram.ts'

export interface Setup {
  readonly connections: number
  readonly payloadBytes: number
  readonly durationMs: number
  /** Empty, for this peer alone. */
  readonly directory: string
  /** Null: it is started here. */
  readonly trilogUrl: string | null
  readonly natsClientDirectory: string | null
  /** Monotonic. */
  readonly nowMs: () => number
}

export interface Figures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface Measured {
  /** Name and version. */
  readonly server: string
  /** Whether a message is synced to disk before its publisher is answered. */
  readonly syncs: 'yes' | 'no'
  readonly publish: Figures
  readonly cycle: Figures
}

export interface Peer {
  readonly name: string
  /** @throws MissingError when something is not installed; anything else is a failure */
  measure(setup: Setup): Promise<Measured>
}

/** It cannot be measured on this machine, and that is no failure. */
export class MissingError extends Error {
  override readonly name = 'MissingError'
}

/** A client with one connection. */
export interface PeerClient {
  /** Resolves when the server has said that the message is stored. */
  publish(): Promise<void>
  /** Takes a message, and resolves when the server has said that it is done with. False: there was none. */
  cycle(): Promise<boolean>
  close(): void
}

/** @param open is told the number of the connection */
export async function measureClients(
  { connections, durationMs, nowMs }: Setup,
  open: (connection: number) => Promise<PeerClient>,
): Promise<Pick<Measured, 'publish' | 'cycle'>> {
  const clients = await Promise.all(Array.from({ length: connections }, (_, connection) => open(connection)))
  try {
    const publish = await measureTask(clients, durationMs, nowMs, async (client) => {
      await client.publish()
      return true
    })
    const cycle = await measureTask(clients, durationMs, nowMs, (client) => client.cycle())
    return { publish, cycle }
  } finally {
    for (const client of clients) client.close()
  }
}

/** Every client does its task again and again, until the time is over or there is nothing left to do. */
async function measureTask(
  clients: readonly PeerClient[],
  durationMs: number,
  nowMs: () => number,
  task: (client: PeerClient) => Promise<boolean>,
): Promise<Figures> {
  const latency = new Histogram()
  const startMs = nowMs()
  let lastMs = startMs
  const loop = async (client: PeerClient): Promise<void> => {
    for (let beginMs = nowMs(); beginMs < startMs + durationMs; beginMs = nowMs()) {
      if (!(await task(client))) return
      lastMs = nowMs()
      latency.add(lastMs - beginMs)
    }
  }
  await Promise.all(clients.map(loop))
  const seconds = (lastMs - startMs) / 1000
  return {
    perSecond: seconds > 0 ? latency.count / seconds : 0,
    p50Ms: latency.percentile(50),
    p99Ms: latency.percentile(99),
  }
}

/** What the other nodes of a cluster say of themselves, as long as it is new. */
import type { HeardStatus, NodeStatus } from './protocol.ts'

/** A node that says nothing for so long is not shown. */
const HEARD_MS = 60_000
const NODES_MAX = 64

export class OtherNodes {
  readonly #own: string
  readonly #nowMs: () => number
  readonly #heard = new Map<string, HeardStatus>()

  constructor({ own, nowMs }: { readonly own: string; readonly nowMs: () => number }) {
    this.#own = own
    this.#nowMs = nowMs
  }

  get all(): readonly HeardStatus[] {
    const sinceMs = this.#nowMs() - HEARD_MS
    return [...this.#heard.values()].filter(({ atMs }) => atMs >= sinceMs)
  }

  /** @param text of whoever can write to the subject */
  heard(text: string): void {
    const status = statusOf(text)
    if (status === null || status.node === this.#own) return
    this.#heard.delete(status.node)
    this.#heard.set(status.node, { ...status, atMs: this.#nowMs() })
    if (this.#heard.size > NODES_MAX) this.#heard.delete(this.#heard.keys().next().value!)
  }
}

function statusOf(text: string): NodeStatus | null {
  try {
    const { node, role, epoch, sequence, position, url, peerUrl } = JSON.parse(text) as Partial<NodeStatus>
    const isKnownRole = role === 'recovering' || role === 'follower' || role === 'leader'
    if (typeof node !== 'string' || !isKnownRole || (typeof url !== 'string' && url !== null)) return null
    if (typeof peerUrl !== 'string' && peerUrl !== null) return null
    if (typeof epoch !== 'number' || typeof sequence !== 'number' || typeof position !== 'number') return null
    return { node, role, epoch, sequence, position, url, peerUrl }
  } catch {
    return null
  }
}

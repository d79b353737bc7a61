/** What the other nodes of a cluster say of themselves, as long as it is recent. */
import { nodeOf } from '../message.ts'
import type { HeardNodes, HeardStatus, NodeStatus } from './protocol.ts'

/** A node that says nothing for so long is not shown. */
const HEARD_MS = 60_000
const NODES_MAX = 64

export class OtherNodes {
  /** This process. */
  readonly writer: string
  readonly #nowMs: () => number
  readonly #heard = new Map<string, HeardStatus>()

  #twinAtMs: number | null = null

  constructor({ writer, nowMs }: { readonly writer: string; readonly nowMs: () => number }) {
    this.writer = writer
    this.#nowMs = nowMs
  }

  get all(): HeardNodes {
    const sinceMs = this.#nowMs() - HEARD_MS
    return {
      others: [...this.#heard.values()].filter(({ atMs }) => atMs >= sinceMs),
      twinAtMs: this.#twinAtMs,
    }
  }

  /** @param text untrusted: any client with access to the subject can write it */
  receive(text: string): void {
    const status = statusOf(text)
    if (status === null || status.writer === this.writer) return
    if (status.node === nodeOf(this.writer)) {
      this.#twinAtMs = this.#nowMs()
      return
    }
    this.#heard.delete(status.node)
    this.#heard.set(status.node, { ...status, atMs: this.#nowMs() })
    if (this.#heard.size > NODES_MAX) this.#heard.delete(this.#heard.keys().next().value!)
  }
}

function statusOf(text: string): NodeStatus | null {
  try {
    const status = JSON.parse(text) as Partial<NodeStatus>
    const { node, writer, role, epoch, sequence, position, url, peerUrl, hasRoom = true } = status
    const isKnownRole = role === 'recovering' || role === 'follower' || role === 'leader'
    if (
      typeof node !== 'string' ||
      typeof writer !== 'string' ||
      !isKnownRole ||
      (typeof url !== 'string' && url !== null)
    )
      return null
    if (typeof peerUrl !== 'string' && peerUrl !== null) return null
    if (typeof epoch !== 'number' || typeof sequence !== 'number' || typeof position !== 'number') return null
    if (typeof hasRoom !== 'boolean') return null
    return { node, writer, role, epoch, sequence, position, url, peerUrl, hasRoom }
  } catch {
    return null
  }
}

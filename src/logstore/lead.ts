/**
 * Whether this node may answer for the log. Without a cluster it always may; in a cluster only while no other node leads or can lead.
 *
 * E1  a node answers with what it read only in the term in which it read it: then no other node led in between, so what it read was the newest
 */
import { leaderHeaders, leaderUrlOf } from '../http/cluster.ts'
import type { ClusterView } from '../http/cluster.ts'
import type { Log } from '../log/log.ts'
import { refusal } from './refusals.ts'
import type { Refusal } from './refusals.ts'

type Headers = readonly (readonly [name: string, value: string])[]

export class Lead {
  readonly #log: Pick<Log, 'cluster'>
  readonly #view: (() => ClusterView) | null

  /** @param view null: there is no cluster */
  constructor(log: Pick<Log, 'cluster'>, view: (() => ClusterView) | null) {
    this.#log = log
    this.#view = view
  }

  /** Number of the term in which this node may answer; null: it may not. */
  get term(): number | null {
    const { cluster } = this.#log
    return cluster === null ? 0 : cluster.term
  }

  /** The refusal of a request that comes now; null: the node may serve it. */
  get refused(): Refusal | null {
    if (this.#view === null || (this.#view().leads && this.term !== null)) return null
    return notLeading(leaderUrlOf(this.#view()))
  }

  /** E1. Null: the node may answer with what it read in that term. */
  refusedAfter(term: number | null): Refusal | null {
    if (term !== null && this.term === term) return null
    return notLeading(this.#view === null ? null : leaderUrlOf(this.#view()))
  }

  /** Headers that tell a client where the leader is; empty when it is not known. */
  get headers(): Headers {
    return this.#view === null ? [] : leaderHeaders(this.#view())
  }
}

const notLeading = (leader: string | null): Refusal => {
  const who = leader === null ? 'and no leader is known' : `the one at ${leader} does`
  return refusal('not_leading', `this node does not lead its cluster, ${who}`)
}

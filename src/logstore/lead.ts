/**
 * Whether this node may answer for the log: always, unless a cluster keeps it and another node leads, or may.
 *
 * E1  what was read is told in the term in which it was read: then no other node led in between, and it was the newest there was
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

  /** Number of the lead under which this node may answer; null: it may not. */
  get term(): number | null {
    const { cluster } = this.#log
    return cluster === null ? 0 : cluster.term
  }

  /** What a request is told that comes now; null: it may come. */
  get refused(): Refusal | null {
    if (this.#view === null || (this.#view().leads && this.term !== null)) return null
    return notLeading(leaderUrlOf(this.#view()))
  }

  /** E1. Null: what was read in that term may be told. */
  refusedAfter(term: number | null): Refusal | null {
    if (term !== null && this.term === term) return null
    return notLeading(this.#view === null ? null : leaderUrlOf(this.#view()))
  }

  /** Where the node is that leads. */
  get headers(): Headers {
    return this.#view === null ? [] : leaderHeaders(this.#view())
  }
}

const notLeading = (leader: string | null): Refusal => {
  const who = leader === null ? 'and no leader is known' : `the one at ${leader} does`
  return refusal('not_leading', `this node does not lead its cluster, ${who}`)
}

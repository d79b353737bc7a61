/** How claims are answered: as JSON, or pushed over the streaming connection. */
import type { GroupPath, Pushed, PushRequest, RenderedJson, StreamPin } from '../operations.ts'
import type { RenderedRecords } from '../records/rendered-records.ts'
import type { Core } from '../engine/core.ts'
import type { StreamState } from '../state/state.ts'
import { claimReply, deliveriesFrame, emptyClaimReply } from './claim-reply.ts'
import type { ClaimedGroup } from './claim-reply.ts'

/** Number of a group that does not exist yet, for ids that name nothing. */
const NO_GROUP = 0xffff_ffff

export interface Delivery {
  readonly offset: number
  readonly attempt: number
  /** Default: when the claim expires. A renewed lease expires later. */
  readonly expiresAtMs?: number
}

/** What a claim leased. */
export interface Lease {
  readonly groupNumber: number
  readonly claimNumber: number
  readonly leasedAtMs: number
  readonly expiresAtMs: number
}

/** What a claim gave, with the records. */
interface Given extends Lease {
  /** Milliseconds left of the lease when the answer is given. */
  readonly remainingMs: number
  readonly deliveries: readonly Delivery[]
  readonly records: RenderedRecords
  readonly nextOffset: number
}

/** How a claim is answered. */
export interface ClaimForm<Reply> {
  read(stream: StreamState, offsets: readonly number[]): RenderedRecords | Promise<RenderedRecords>
  nothing(): Reply
  reply(given: Given): Reply
}

/** The group that the client asks for, and the stream as far as it is known. */
interface AskedGroup {
  readonly path: GroupPath
  readonly pin: StreamPin
}

/** Tokens begin with 1: 0 means that no token was seen. */
const fencingTokenOf = ({ claimNumber }: Lease): number => claimNumber + 1

export class JsonClaims implements ClaimForm<RenderedJson> {
  readonly #core: Core
  readonly #asked: AskedGroup
  readonly #startOffset: number

  constructor(core: Core, { path, pin, startOffset }: AskedGroup & { readonly startOffset: number }) {
    this.#core = core
    this.#asked = { path, pin }
    this.#startOffset = startOffset
  }

  read(stream: StreamState, offsets: readonly number[]): RenderedRecords | Promise<RenderedRecords> {
    return this.#core.reads.deliveries(stream.index, offsets)
  }

  nothing(): RenderedJson {
    const subscriptionId = this.#core.tokens.subscription(NO_GROUP, 0)
    return emptyClaimReply({ ...this.#group, subscriptionId, nextOffset: this.#startOffset })
  }

  reply(given: Given): RenderedJson {
    const { groupNumber, claimNumber, deliveries } = given
    const ids = this.#core.tokens.claim(groupNumber, claimNumber, deliveries)
    return claimReply({ ...given, ...this.#group, ids, fencingToken: fencingTokenOf(given) })
  }

  get #group(): ClaimedGroup {
    const { path, pin } = this.#asked
    return { ...path, streamCreatedAtMs: pin.createdAtMs! } // a claim is answered only after its stream was found
  }
}

export class PushedClaims implements ClaimForm<Pushed | null> {
  readonly #core: Core
  /** Null: the binary form. */
  readonly #json: JsonClaims | null

  constructor(core: Core, asked: AskedGroup, form: PushRequest['form']) {
    this.#core = core
    this.#json = form === 'json' ? new JsonClaims(core, { ...asked, startOffset: 0 }) : null
  }

  read(stream: StreamState, offsets: readonly number[]): RenderedRecords | Promise<RenderedRecords> {
    return this.#json?.read(stream, offsets) ?? this.#core.reads.storedRecords(stream.index, offsets)
  }

  nothing(): null {
    return null
  }

  /** Null: no record could be read. */
  reply(given: Given): Pushed | null {
    const { tokens } = this.#core
    const { groupNumber, claimNumber, leasedAtMs, expiresAtMs, records } = given
    const deliveries = given.deliveries.filter((_, i) => records.end(i) > records.start(i))
    if (deliveries.length === 0) return null
    const message = this.#json?.reply(given) ?? this.#frame(given)
    const claim = { groupNumber, claimNumber, deliveries }
    return { claim, subscriptionId: tokens.subscription(groupNumber, claimNumber), leasedAtMs, expiresAtMs, message }
  }

  #frame(given: Given): RenderedJson {
    const { groupNumber, claimNumber, deliveries } = given
    const ids = this.#core.tokens.claimBlocks(groupNumber, claimNumber, deliveries)
    return deliveriesFrame({ ...given, ids, fencingToken: fencingTokenOf(given) })
  }
}

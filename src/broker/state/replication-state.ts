/**
 * What is known of the replication of one stream: as a target, what other sites have brought; as a source, what has arrived at other sites,
 * and which workers an operator has paused.
 *
 * R1  a link takes each origin offset once. Offsets below `next` that did not come are skipped: the source does not have them
 * R2  a stream that is created anew at the source is another one: its offsets begin at 0 again
 * R3  it is known where each record came from, as long as the record exists, or another site may have to be told that it is skipped
 */
import { IntervalSet } from '../interval-set.ts'

export interface Sites {
  readonly sourceSite: string
  readonly targetSite: string
}

/** A source site, a target site, and a policy between them. */
export interface Link extends Sites {
  readonly policy: string
}

/** What a source site has brought so far. */
export interface ReplicationLink {
  readonly link: Link
  /** Origin offset of the next record (R1). */
  readonly next: number
  /** Records that the source did not have. */
  readonly skipped: number
  /** When the stream was created at the source (R2); null: the source does not say. */
  readonly createdAtMs: number | null
}

/** What has arrived at another site. */
export interface Shipment {
  readonly link: Link
  /** The target has everything below that this site had to send. */
  readonly nextOffset: number
  /** Unsent records below were removed, and that was reported. */
  readonly skippedBelow: number
  readonly skippedRecords: number
}

export interface PausedWorker {
  readonly sites: Sites
  readonly reason: string | null
  readonly principal: string
  readonly atMs: number
}

/** As a checkpoint holds it. */
export interface ReplicationContent {
  readonly links: readonly ReplicationLink[]
  readonly shipments: readonly Shipment[]
  readonly paused: readonly PausedWorker[]
  /** Bounds of intervals, by sites. */
  readonly arrived: readonly (readonly [sites: string, bounds: readonly number[]])[]
}

export class StreamReplication {
  readonly #links = new Map<string, ReplicationLink>()
  readonly #shipments = new Map<string, Shipment>()
  readonly #paused = new Map<string, PausedWorker>()
  /** Offsets by the sites that the records passed through (R3). */
  readonly #arrived = new Map<string, { readonly sites: readonly string[]; readonly offsets: IntervalSet }>()

  static decode({ links, shipments, paused, arrived }: ReplicationContent): StreamReplication {
    const replication = new StreamReplication()
    for (const link of links) replication.restoreLink(link)
    for (const shipment of shipments) replication.#shipments.set(linkKey(shipment.link), shipment)
    for (const worker of paused) replication.applyPaused(worker)
    for (const [key, bounds] of arrived) {
      const offsets = IntervalSet.decode(Float64Array.from(bounds))
      replication.#arrived.set(key, { sites: JSON.parse(key) as string[], offsets }) // written by `applyArrived`
    }
    return replication
  }

  encode(): ReplicationContent {
    return {
      links: [...this.#links.values()],
      shipments: [...this.#shipments.values()],
      paused: [...this.#paused.values()],
      arrived: Array.from(this.#arrived, ([key, { offsets }]) => [key, [...offsets.encode()]]),
    }
  }

  link(link: Link): ReplicationLink | undefined {
    return this.#links.get(linkKey(link))
  }

  links(): Iterable<ReplicationLink> {
    return this.#links.values()
  }

  shipment(link: Link): Shipment {
    return this.#shipments.get(linkKey(link)) ?? { link, nextOffset: 0, skippedBelow: 0, skippedRecords: 0 }
  }

  /** Null: the workers between the sites run. */
  paused(sites: Sites): PausedWorker | null {
    return this.#paused.get(sitesKey(sites)) ?? null
  }

  /** Offsets of records from elsewhere, with the sites that they passed through. */
  arrived(): Iterable<{ readonly sites: readonly string[]; readonly offsets: IntervalSet }> {
    return this.#arrived.values()
  }

  restoreLink(link: ReplicationLink): void {
    this.#links.set(linkKey(link.link), link)
  }

  /** R1. @param brought the origin offset behind what was brought, and how many records came */
  applyBrought(
    link: Link,
    brought: { readonly next: number; readonly count: number; readonly createdAtMs: number | null },
  ): void {
    const known = this.link(link)
    const createdAtMs = brought.createdAtMs ?? known?.createdAtMs ?? null
    const from = expectedOf(known, brought.createdAtMs)
    const skipped = (known?.skipped ?? 0) + Math.max(0, brought.next - from - brought.count)
    this.restoreLink({ link, next: brought.next, skipped, createdAtMs })
  }

  /** R3. @param sites in the order in which the records passed through them */
  applyArrived(sites: readonly string[], from: number, to: number): void {
    const key = JSON.stringify(sites)
    const arrived = this.#arrived.get(key) ?? { sites, offsets: new IntervalSet() }
    this.#arrived.set(key, arrived)
    arrived.offsets.add(from, to)
  }

  applyShipped(link: Link, nextOffset: number): void {
    this.#shipments.set(linkKey(link), { ...this.shipment(link), nextOffset })
  }

  applySkipped(link: Link, skippedBelow: number, records: number): void {
    const shipment = this.shipment(link)
    const skippedRecords = shipment.skippedRecords + records
    this.#shipments.set(linkKey(link), { ...shipment, skippedBelow, skippedRecords })
  }

  applyPaused(worker: PausedWorker): void {
    this.#paused.set(sitesKey(worker.sites), worker)
  }

  applyResumed(sites: Sites): void {
    this.#paused.delete(sitesKey(sites))
  }

  /** R3. Called when records below were removed. */
  dropBelow(floor: number): void {
    let end = floor
    for (const { nextOffset, skippedBelow } of this.#shipments.values()) {
      end = Math.min(end, Math.max(nextOffset, skippedBelow))
    }
    for (const { offsets } of this.#arrived.values()) offsets.remove(0, end)
  }
}

/** R1, R2. @param createdAtMs when the stream was created at the source; null: the source does not say */
export const expectedOf = (known: ReplicationLink | undefined, createdAtMs: number | null): number =>
  known === undefined || isLater(createdAtMs, known.createdAtMs) ? 0 : known.next

const isLater = (asked: number | null, known: number | null): boolean =>
  asked !== null && known !== null && asked > known

const linkKey = ({ sourceSite, targetSite, policy }: Link): string => JSON.stringify([sourceSite, targetSite, policy])
const sitesKey = ({ sourceSite, targetSite }: Sites): string => JSON.stringify([sourceSite, targetSite])

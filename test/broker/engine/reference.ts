/**
 * The meaning of the broker's frames, in plain maps. It applies every frame in order and checks that the frame is allowed there; it decides
 * nothing itself. After a loss, a new reference starts over with the frames that are left.
 */
import assert from 'node:assert/strict'
import {
  FRAME_CHANGE,
  FRAME_CLAIM,
  FRAME_DEAD_LETTER,
  FRAME_RECORDS,
  FRAME_RECORDS_REPLICATED,
  FRAME_REDRIVE,
  FRAME_RESOLVE,
  FrameRecords,
  decodeClaim,
  decodeDeadLetter,
  decodeOrigin,
  decodeRecordsHead,
  decodeRedrive,
  decodeResolve,
} from '../../../src/broker/frames.ts'
import { decodeChange } from '../../../src/broker/frames/change.ts'
import type { Change } from '../../../src/broker/frames/change.ts'
import { JsonText } from '../../../src/broker/records/json-text.ts'
import { renderRecord } from '../../../src/broker/records/render-record.ts'
import { Tokens } from '../../../src/broker/tokens.ts'
import { AUDIT_STREAM, RefGroup, RefStream, isNewest } from './reference-streams.ts'
import type { Frame, RefRecord, RefEvent, Intent } from './reference-streams.ts'

export class Reference {
  secret = ''
  /** By number, including deleted streams. */
  readonly streams: RefStream[] = []
  readonly groups: RefGroup[] = []
  #claimNumbersUsed = 0
  readonly links = new Map<string, { readonly stream: RefStream; readonly names: readonly string[]; next: number }>()
  readonly acknowledgedIncidents = new Set<string>()

  stream(tenant: string, name: string): RefStream | undefined {
    return this.livingStreams.find((each) => each.tenant === tenant && each.name === name)
  }

  get livingStreams(): RefStream[] {
    return this.streams.filter(({ isDeleted }) => !isDeleted)
  }

  get livingGroups(): RefGroup[] {
    return this.groups.filter(({ isDeleted }) => !isDeleted)
  }

  get tokens(): Tokens {
    return new Tokens(Buffer.from(this.secret, 'hex'))
  }

  /** @throws AssertionError when the frame is not allowed */
  apply(frame: Frame, intent: Intent = {}): void {
    switch (frame.type) {
      case FRAME_RECORDS:
      case FRAME_RECORDS_REPLICATED:
        return this.#applyRecords(frame)
      case FRAME_DEAD_LETTER:
        return this.#applyDeadLetter(frame)
      case FRAME_REDRIVE:
        return this.#applyRedrive(frame)
      case FRAME_CLAIM:
        return this.#applyClaim(frame.payload, intent)
      case FRAME_RESOLVE:
        return this.#applyResolutions(frame.payload, intent)
      case FRAME_CHANGE: {
        const change = decodeChange(frame.payload)
        assert.ok(change, 'a change that reads')
        this.#applyChange(change, intent)
        return this.#applyAudited(change, frame.position)
      }
      default:
        assert.fail(`no frame of type ${frame.type}`)
    }
  }

  /** The frame is stored as its durability asks: its records and events become visible. */
  stored(frame: Frame): void {
    const seen = (stream: RefStream | undefined, offset: number): void => {
      if (stream) stream.visibleNext = Math.max(stream.visibleNext, offset + 1)
    }
    const records = recordsOf(frame)
    if (records) seen(this.streams[records.streamNumber], records.records.at(-1)!.offset)
    if (frame.type === FRAME_DEAD_LETTER) {
      const { tenant, auditOffset } = decodeDeadLetter(frame.payload)!
      seen(this.stream(tenant, AUDIT_STREAM), auditOffset)
    }
    if (frame.type === FRAME_REDRIVE) {
      const { tenant, auditOffset } = decodeRedrive(frame.payload)!
      seen(this.stream(tenant, AUDIT_STREAM), auditOffset)
    }
    if (frame.type !== FRAME_CHANGE) return
    const change = decodeChange(frame.payload)!
    if ('audit_offset' in change && change.audit_offset !== null) {
      seen(this.stream(change.tenant, AUDIT_STREAM), change.audit_offset)
    }
  }

  everythingStored(): void {
    for (const stream of this.streams) stream.visibleNext = stream.nextOffset
  }

  /** The lowest offset that retention would keep. */
  retentionFloor(
    stream: RefStream,
    wallMs: number,
    { maxAgeMs, maxBytes }: { readonly maxAgeMs: number | null; readonly maxBytes: number | null },
  ): number {
    const end = stream.visibleNext
    let floor = stream.floor
    if (maxAgeMs !== null) floor = Math.max(floor, stream.firstNotAged(wallMs - maxAgeMs, wallMs))
    if (maxBytes !== null) {
      let kept = end
      while (kept > stream.floor && stream.payloadBytesBetween(kept - 1, end) <= maxBytes) kept -= 1
      floor = Math.max(floor, kept)
    }
    const cursorFloor = this.cursorFloor(stream)
    return cursorFloor === null ? floor : Math.max(stream.floor, Math.min(floor, cursorFloor))
  }

  cursorFloor(stream: RefStream): number | null {
    const name = stream.config.retention.min_cursor_name
    if (name === null) return null
    const offsets = Array.from(stream.groups.values(), ({ cursors }) => cursors.get(name)?.offset ?? Infinity)
    const slowest = Math.min(...offsets)
    return slowest === Infinity ? 0 : slowest
  }

  #applyRecords(frame: Frame): void {
    const { streamNumber, records } = recordsOf(frame)!
    const stream = this.streams[streamNumber]
    assert.ok(stream && !stream.isDeleted, 'records of a stream that is there')
    if (decodeRecordsHead(frame.payload)?.relocated) {
      for (const record of records) {
        assert.deepEqual(record, stream.records.get(record.offset), 'what is moved stays what it is')
      }
      return
    }
    assert.equal(records[0]!.offset, stream.nextOffset, 'offsets have no gaps')
    this.#bring(stream, records)
    if (frame.type === FRAME_RECORDS_REPLICATED) this.#applyReplicated(stream, frame.payload, records.length)
  }

  #bring(stream: RefStream, records: readonly RefRecord[]): void {
    for (const record of records) {
      assert.equal(record.offset, stream.nextOffset)
      stream.records.set(record.offset, record)
      stream.nextOffset += 1
    }
  }

  #applyReplicated(stream: RefStream, payload: Buffer, count: number): void {
    const { sourceSite, targetSite, policy, firstOriginOffset } = decodeOrigin(payload)!
    const names = [sourceSite, targetSite, policy]
    const key = JSON.stringify([stream.number, ...names])
    assert.equal(firstOriginOffset, this.links.get(key)?.next ?? 0, 'a link takes each origin offset once')
    const link = this.links.get(key)
    if (link) link.next += count
    else this.links.set(key, { stream, names, next: count })
  }

  #applyDeadLetter(frame: Frame): void {
    const deadLetter = decodeDeadLetter(frame.payload)!
    const { groupNumber, offset, attempt, atMs, targetNumber, tenant, auditOffset, cause, reason } = deadLetter
    const group = this.groups[groupNumber]!
    const { kind } = group.queue.find(offset, attempt, atMs)
    assert.equal(kind, cause === 'expiry' ? 'expired' : 'active', 'only what is not resolved is dead-lettered')
    const policy = group.stream.config.failure_policy
    const target = this.streams[targetNumber]!
    if (cause !== 'explicit') {
      assert.ok(policy && attempt >= policy.max_attempts, 'attempts are left')
      assert.equal(policy.dead_letter_stream, target.name)
    }
    group.queue.applyFinish(offset, attempt, 'dead_lettered', kind === 'expired', reason)

    const source = group.stream.records.get(offset)!
    const [copy] = recordsOf(frame)!.records
    const { headers } = source
    const hops = Number(headers['x-dead-letter-count'] ?? 0)
    assert.ok(hops < 10, 'a cycle of dead-letter streams ends')
    assert.deepEqual(copy, {
      ...source,
      offset: target.nextOffset,
      headers: {
        ...source.headers,
        'x-dead-letter-source-stream': group.stream.name,
        'x-dead-letter-source-offset': String(offset),
        'x-dead-letter-reason': reason,
        'x-dead-letter-origin-stream': headers['x-dead-letter-origin-stream'] ?? group.stream.name,
        'x-dead-letter-origin-offset': headers['x-dead-letter-origin-offset'] ?? String(offset),
        'x-dead-letter-count': String(hops + 1),
      },
      ingest_time_ms: deadLetter.ingestTimeMs,
    })
    this.#bring(target, [copy])
    this.#audit(tenant, auditOffset, frame.position, {
      kind: 'delivery_dead_lettered',
      at_ms: deadLetter.ingestTimeMs,
      principal: deadLetter.principal,
      stream: group.stream.name,
      detail: {
        consumer_group: group.name,
        offset,
        attempt,
        cause,
        reason,
        dead_letter_stream: target.name,
        dead_letter_offset: copy.offset,
      },
    })
  }

  #applyRedrive(frame: Frame): void {
    const redrive = decodeRedrive(frame.payload)!
    const { fromNumber, offsets, tenant, auditOffset, principal, reason, ingestTimeMs } = redrive
    const from = this.streams[fromNumber]!
    const { streamNumber, records } = recordsOf(frame)!
    const source = this.streams[streamNumber]!
    assert.ok(!from.isDeleted && !source.isDeleted, 'a redrive between streams that are there')
    for (const [i, record] of records.entries()) {
      const offset = offsets[i]!
      assert.ok(offset >= from.floor && !from.redriven.has(offset), 'a dead letter comes back once')
      from.redriven.add(offset)
      const copy = from.records.get(offset)!
      assert.equal(copy.headers['x-dead-letter-source-stream'], source.name)
      const kept = Object.entries(copy.headers).filter(([name]) => !name.startsWith('x-dead-letter-'))
      const headers = Object.fromEntries(kept)
      assert.deepEqual(record, { ...copy, headers, offset: source.nextOffset + i, ingest_time_ms: ingestTimeMs })
    }
    this.#bring(source, records)
    this.#audit(tenant, auditOffset, frame.position, {
      kind: 'dead_letters_redriven',
      at_ms: ingestTimeMs,
      principal,
      stream: from.name,
      detail: {
        dead_letter_offsets: offsets,
        source_stream: source.name,
        first_source_offset: records[0]!.offset,
        reason,
      },
    })
  }

  #delete(group: RefGroup): void {
    group.isDeleted = true
    group.stream.groups.delete(group.name)
    this.#claimNumbersUsed = Math.max(this.#claimNumbersUsed, group.claims)
  }

  #applyClaim(payload: Buffer, intent: Intent): void {
    const { groupNumber, claimNumber, atMs, expiresAtMs, runs, id } = decodeClaim(payload)!
    const group = this.groups[groupNumber]
    assert.ok(group && !group.isDeleted, 'a claim of a group that is there')
    assert.equal(claimNumber, group.claims)
    group.meet(atMs)
    const asked = intent.claim?.(expiresAtMs - atMs)
    if (asked) {
      assert.deepEqual(runs, group.plan(asked), 'a claim takes the first available records')
    } else {
      for (const { offset, count, attempt } of runs) {
        const free = group.plan({ startOffset: offset, max: count })
        assert.deepEqual(free, [{ offset, count, attempt }], 'only what is available is given out')
      }
    }
    if (id !== undefined) {
      assert.deepEqual(group.activeDeliveriesOf(id, atMs), [], 'an id stands for one claim while that lives')
      group.claimsWithId.set(id, [...(group.claimsWithId.get(id) ?? []), { claimNumber, runs }])
    }
    group.claims += 1
    group.queue.applyClaim(claimNumber, atMs, expiresAtMs, runs)
  }

  #applyResolutions(payload: Buffer, intent: Intent): void {
    for (const { groupNumber, verb, offset, attempt, atMs, valueMs, reason } of decodeResolve(payload)!) {
      const group = this.groups[groupNumber]!
      assert.ok(!group.isDeleted, 'a delivery of a group that is there')
      const { queue, stream } = group
      const found = queue.find(offset, attempt, atMs)
      const isExpired = found.kind === 'expired'
      if (verb === 'release' && stream.appliesOnExpiry) assert.ok(isExpired || found.kind === 'active')
      else assert.equal(found.kind, 'active', `${verb} of a lease that is not active`)
      if (verb === 'ack') queue.applyFinish(offset, attempt, 'acked', false)
      else if (verb === 'nack') queue.applyFinish(offset, attempt, 'nacked', false, reason)
      else if (verb === 'renew') {
        assert.ok(found.kind === 'active' && valueMs > found.expiresAtMs, 'a lease is prolonged')
        queue.applyRenew(offset, attempt, valueMs)
      } else {
        // If a record could not be read, the broker releases its lease without a reason.
        const isUnread = !isExpired && reason === undefined && intent.retryDelayMs === undefined
        const policy = isUnread ? null : stream.config.failure_policy
        const delayMs = intent.retryDelayMs ?? policy?.retry_delay_millis ?? 0
        assert.equal(valueMs, delayMs === 0 ? 0 : atMs + delayMs, 'delayed as asked for')
        if (intent.retryDelayMs === undefined && policy) assert.ok(attempt < policy.max_attempts, 'no attempt is left')
        queue.applyRelease(offset, attempt, valueMs, isExpired, reason)
      }
    }
  }

  #applyChange(change: Change, intent: Intent): void {
    switch (change.kind) {
      case 'init':
        assert.equal(this.secret, '', 'a log begins once')
        this.secret = change.secret
        return
      case 'stream_created':
        assert.equal(this.stream(change.tenant, change.stream), undefined, 'a stream is created once')
        assert.equal(change.stream_number, this.streams.length)
        assert.equal(change.audit_offset === null, change.stream === AUDIT_STREAM)
        this.streams.push(new RefStream(change))
        assert.ok(isNewest(this.streams), 'a stream is created later than all that were deleted before')
        return
      case 'group_created': {
        const stream = this.streams[change.stream_number]!
        assert.equal(change.group_number, this.groups.length)
        assert.ok(!stream.groups.has(change.group), 'a group is created once')
        const group = new RefGroup(change.group_number, change.group, stream, this.#claimNumbersUsed)
        stream.groups.set(change.group, group)
        this.groups.push(group)
        return
      }
      case 'stream_updated': {
        const { default_durability, retention, failure_policy } = change
        this.streams[change.stream_number]!.config = { default_durability, retention, failure_policy }
        return
      }
      case 'stream_deleted': {
        const stream = this.streams[change.stream_number]!
        assert.ok(!stream.isDeleted, 'a stream is deleted once')
        assert.equal(change.removed_records, stream.nextOffset - stream.floor)
        stream.isDeleted = true
        for (const group of Array.from(stream.groups.values())) this.#delete(group)
        return
      }
      case 'stream_purged': {
        const stream = this.streams[change.stream_number]!
        assert.equal(change.previous_floor, stream.floor)
        assert.equal(change.removed_bytes, stream.payloadBytesBetween(stream.floor, change.floor))
        return this.#raiseFloor(stream, change.floor)
      }
      case 'group_deleted':
        assert.ok(!this.groups[change.group_number]!.isDeleted, 'a group is deleted once')
        return this.#delete(this.groups[change.group_number]!)
      case 'group_sought': {
        const { queue } = this.groups[change.group_number]!
        assert.equal(change.previous_offset, queue.progressOffset())
        queue.reopenFrom(change.offset)
        return
      }
      case 'cursor_deleted': {
        const { cursors } = this.groups[change.group_number]!
        assert.equal(cursors.get(change.cursor)?.offset, change.offset)
        cursors.delete(change.cursor)
        return
      }
      case 'cursor_committed':
      case 'cursor_rewound': {
        const { cursors, stream } = this.groups[change.group_number]!
        const present = cursors.get(change.cursor)?.offset
        if (change.kind === 'cursor_committed') assert.ok(change.offset >= (present ?? 0), 'cursors go forward')
        else assert.equal(change.previous_offset, present ?? null)
        assert.ok(change.offset >= stream.floor && change.offset <= stream.nextOffset)
        cursors.set(change.cursor, { offset: change.offset, atMs: change.at_ms })
        return
      }
      case 'observation': {
        const { observations } = this.groups[change.group_number]!
        observations.delete(change.consumer_id)
        observations.set(change.consumer_id, change)
        return
      }
      case 'retained':
        return this.#applyRetained(this.streams[change.stream_number]!, change.floor, intent)
      case 'quarantine_acknowledged':
        assert.ok(!this.acknowledgedIncidents.has(change.incident_id), 'an incident is acknowledged once')
        this.acknowledgedIncidents.add(change.incident_id)
        return
      case 'delivery_stopped': {
        const { offset, attempt, at_ms } = change
        const { queue, stream } = this.groups[change.group_number]!
        const { kind } = queue.find(offset, attempt, at_ms)
        assert.ok(kind === 'active' || (kind === 'expired' && stream.appliesOnExpiry))
        assert.ok(attempt >= stream.config.failure_policy!.max_attempts)
        queue.applyFinish(offset, attempt, 'stopped', kind === 'expired', change.reason)
        return
      }
      case 'audit':
        return
    }
  }

  #applyRetained(stream: RefStream, floor: number, { retainedAtWallMs }: Intent): void {
    const { max_age_millis: maxAgeMs, max_bytes: maxBytes } = stream.config.retention
    assert.ok(floor > stream.floor && floor <= stream.visibleNext)
    assert.ok(floor <= (this.cursorFloor(stream) ?? Infinity), 'what a cursor has not passed stays')
    if (retainedAtWallMs !== undefined) {
      assert.equal(floor, this.retentionFloor(stream, retainedAtWallMs, { maxAgeMs, maxBytes }))
    }
    this.#raiseFloor(stream, floor)
  }

  #raiseFloor(stream: RefStream, floor: number): void {
    stream.floor = floor
    for (const { queue } of stream.groups.values()) queue.dropBelow(floor)
  }

  #applyAudited(change: Change, position: number): void {
    switch (change.kind) {
      case 'stream_updated': {
        const { default_durability, retention, failure_policy } = change
        const detail = { default_durability, retention, failure_policy }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'stream_deleted': {
        const { next_offset, removed_records, removed_bytes, forced } = change
        const detail = { next_offset, removed_records, removed_bytes, forced }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'stream_purged': {
        const { floor: first_offset, previous_floor: previous_first_offset, removed_bytes, reason, forced } = change
        const detail = { first_offset, previous_first_offset, removed_bytes, reason, forced }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'group_deleted': {
        const detail = { consumer_group: change.group, forced: change.forced }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'group_sought': {
        const { group: consumer_group, offset, previous_offset, reason } = change
        const detail = { consumer_group, offset, previous_offset, reason }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'cursor_deleted': {
        const { group: consumer_group, cursor, offset, forced } = change
        const detail = { consumer_group, cursor, offset, forced }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'stream_created': {
        const { default_durability, retention, failure_policy, audit_offset } = change
        if (audit_offset === null) return
        const detail = { default_durability, retention, failure_policy }
        return this.#audit(change.tenant, audit_offset, position, { ...change, detail })
      }
      case 'cursor_rewound': {
        const { group: consumer_group, cursor, offset, previous_offset, reason } = change
        const detail = { consumer_group, cursor, offset, previous_offset, reason }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'quarantine_acknowledged': {
        const { incident_id, acknowledged_by, note } = change
        const detail = { incident_id, acknowledged_by, note }
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, detail })
      }
      case 'delivery_stopped': {
        const { group: consumer_group, offset, attempt, reason } = change
        const detail = { consumer_group, offset, attempt, reason }
        const at_ms = change.wall_ms!
        return this.#audit(change.tenant, change.audit_offset, position, { ...change, at_ms, detail })
      }
      case 'audit': {
        const { event_id, event_kind: kind, at_ms, tenant, principal, stream, detail, audit_offset: offset } = change
        const moved = { event_id, kind, at_ms, tenant, principal, stream, detail, offset }
        assert.deepEqual(moved, this.stream(tenant, AUDIT_STREAM)!.events.get(offset), 'what is moved stays what it is')
        return
      }
      default:
    }
  }

  #audit(
    tenant: string,
    offset: number,
    position: number,
    { kind, at_ms, principal, stream, detail }: Pick<RefEvent, 'kind' | 'at_ms' | 'principal' | 'stream' | 'detail'>,
  ): void {
    const audit = this.stream(tenant, AUDIT_STREAM)!
    assert.equal(offset, audit.nextOffset, 'audit events have no gaps')
    const event_id = `evt-${position.toString(16).padStart(12, '0')}`
    audit.events.set(offset, { event_id, kind, at_ms, tenant, principal, stream, detail, offset })
    audit.nextOffset += 1
  }
}

function recordsOf({ type, payload }: Frame): { streamNumber: number; records: RefRecord[] } | null {
  const frame = new FrameRecords()
  if (!frame.open(type, payload)) return null
  const records: RefRecord[] = []
  for (let number = 0; number < frame.count; number += 1) {
    assert.ok(frame.seek(number))
    const text = new JsonText(0)
    renderRecord(text, payload, frame.record, frame.firstOffset + number, frame.ingestTimeMs)
    records.push(JSON.parse(text.bytes.toString('utf8', 0, text.length)) as RefRecord)
  }
  return { streamNumber: frame.streamNumber, records }
}

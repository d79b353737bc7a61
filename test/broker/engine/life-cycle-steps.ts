/** Steps of operators on streams, groups and cursors: change, purge, seek, redrive, delete. */
import assert from 'node:assert/strict'
import { FRAME_REDRIVE, decodeRedrive } from '../../../src/broker/frames.ts'
import { CALLER } from '../../support/broker-world.ts'
import { pick } from '../../support/random-history.ts'
import { Steps } from './asking.ts'
import type { Expected } from './asking.ts'
import type { RefCursor, RefStream } from './reference-streams.ts'

const FAILURE = 'internal_error'
const HELD = { code: 'write_not_allowed' } as const
const NO_STREAM = { code: 'stream_not_found' } as const

export class LifeCycleSteps extends Steps {
  update(name: string, b: number): void {
    const max_bytes = pick([null, 300, 2000], b)
    const body = { retention: { max_bytes }, default_durability: pick(['local-disk', 'memory', undefined], b >> 2) }
    this.ask({
      name: `update ${name}`,
      failure: FAILURE,
      run: () => {
        const { default_durability, retention } = body
        const given = default_durability === undefined ? { retention } : { default_durability, retention }
        return this.world.broker.updateStream(CALLER, name, given, false)
      },
      expected: () => (this.stream(name) ? 'effect' : NO_STREAM),
      check: ({ retention }, frames) => {
        assert.equal(retention.max_bytes, max_bytes)
        assert.equal(this.auditedBy(frames), 1)
      },
    })
  }

  delete(name: string, force: boolean): void {
    this.ask({
      name: `delete ${name}`,
      failure: FAILURE,
      run: () => this.world.broker.deleteStream(CALLER, name, force),
      expected: () => {
        const stream = this.stream(name)
        if (!stream) return NO_STREAM
        return !force && (this.#isTarget(stream) || this.#isHeld(stream, stream.nextOffset)) ? HELD : 'effect'
      },
      check: (_reply, frames) => assert.equal(this.auditedBy(frames), 1),
    })
  }

  purge(name: string, b: number, force: boolean): void {
    const offset = b % ((this.stream(name)?.nextOffset ?? 0) + 2)
    this.ask({
      name: `purge ${name}`,
      failure: FAILURE,
      run: () => this.world.broker.purgeStream(CALLER, name, { offset }, force),
      expected: () => {
        const stream = this.stream(name)
        if (!stream) return NO_STREAM
        if (offset > stream.nextOffset) return { code: 'invalid_request' }
        return !force && offset > stream.floor && this.#holdsAll(stream, offset) ? HELD : 'either'
      },
      check: (reply) => assert.equal(reply.first_offset, Math.max(reply.previous_first_offset, offset)),
    })
  }

  seek(name: string, group: string, c: number): void {
    const offset = c % ((this.stream(name)?.nextOffset ?? 0) + 2)
    this.ask({
      name: `seek ${name}`,
      failure: FAILURE,
      run: () => this.world.broker.seekGroup(CALLER, { stream: name, group }, { offset, reason: 'again' }),
      expected: () => {
        const stream = this.stream(name)
        if (!stream) return NO_STREAM
        if (offset > stream.nextOffset) return { code: 'invalid_request' }
        return offset < stream.floor ? HELD : 'effect'
      },
      check: (reply, frames) => {
        assert.equal(reply.offset, offset)
        assert.equal(this.auditedBy(frames), 1)
      },
    })
  }

  deleteGroup(name: string, groupName: string, force: boolean): void {
    this.ask({
      name: `delete group ${groupName} of ${name}`,
      failure: FAILURE,
      run: () => this.world.broker.deleteGroup(CALLER, { stream: name, group: groupName }, force),
      expected: () => {
        const group = this.group(name, groupName)
        const kept = this.stream(name)?.config.retention.min_cursor_name ?? null
        const isHeld = !force && kept !== null && group?.cursors.has(kept) === true
        return this.#expected(name, group !== undefined, isHeld)
      },
      check: (_reply, frames) => assert.equal(this.auditedBy(frames), 1),
    })
  }

  deleteCursor(name: string, groupName: string, cursor: string, force: boolean): void {
    const present = (): RefCursor | undefined => this.group(name, groupName)?.cursors.get(cursor)
    const before = present()
    this.ask({
      name: `delete cursor ${cursor} of ${name}`,
      failure: FAILURE,
      run: () => this.world.broker.deleteCursor(CALLER, { stream: name, group: groupName }, cursor, force),
      expected: () => {
        const isHeld = !force && this.stream(name)?.config.retention.min_cursor_name === cursor
        return this.#expected(name, present() !== undefined, isHeld)
      },
      check: (reply, frames) => {
        assert.equal(reply.offset, before!.offset)
        assert.equal(this.auditedBy(frames), 1)
      },
    })
  }

  redrive(b: number, c: number): void {
    const next = this.stream('dead')?.nextOffset ?? 0
    const body = b % 3 === 0 ? { offsets: [c % (next + 1), (c >> 2) % (next + 1)] } : { max_records: 1 + (b % 4) }
    this.ask({
      name: 'redrive',
      failure: FAILURE,
      run: () => this.world.broker.redrive(CALLER, 'dead', body),
      expected: () => (this.stream('dead') ? 'either' : NO_STREAM),
      check: (reply, frames) => {
        const redriven = frames.flatMap(({ type, payload }) =>
          type === FRAME_REDRIVE ? [decodeRedrive(payload)!] : [],
        )
        const count = redriven.reduce((sum, { offsets }) => sum + offsets.length, 0)
        assert.equal(reply.redriven_count, count)
        const told = reply.results.filter(({ error }) => error === undefined)
        assert.equal(told.length, count)
        for (const { offsets, stream, firstOffset } of redriven) {
          for (const [i, dead_letter_offset] of offsets.entries()) {
            const found = told.find((result) => result.dead_letter_offset === dead_letter_offset)
            assert.deepEqual(found, { dead_letter_offset, stream, offset: firstOffset + i })
          }
        }
      },
    })
  }

  #expected(name: string, isThere: boolean, isHeld: boolean): Expected {
    if (!this.stream(name)) return NO_STREAM
    if (!isThere) return { code: 'not_found' }
    return isHeld ? HELD : 'effect'
  }

  #isTarget({ name, tenant }: RefStream): boolean {
    return this.reference.livingStreams.some(
      (each) => each.tenant === tenant && each.config.failure_policy?.dead_letter_stream === name,
    )
  }

  /** A cursor that retention waits for is below `end`. */
  #isHeld(stream: RefStream, end: number): boolean {
    const name = stream.config.retention.min_cursor_name
    if (name === null || stream.floor >= end) return false
    return Array.from(stream.groups.values()).some(({ cursors }) => (cursors.get(name)?.offset ?? end) < end)
  }

  /** As above, or no group has the cursor that retention waits for. */
  #holdsAll(stream: RefStream, end: number): boolean {
    return this.#isHeld(stream, end) || (this.reference.cursorFloor(stream) ?? end) < end
  }
}

/** An object store that can be broken, under load. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Load } from '../../../scripts/soak/objectstore/load.ts'
import { Breakable, Faults } from '../../support/faults.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import type { ObjectReply } from '../../support/objectstore.ts'
import { seedOf } from '../../support/seed.ts'

/** Small: segments fill soon, so faults also hit the creation of segments. */
const SEGMENT_BYTES = 1 << 20

export class BreakableObjectStore extends Breakable<ObjectStoreServer> {
  static async start(): Promise<BreakableObjectStore> {
    const faults = new Faults()
    const env = { ...faults.env, OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) }
    return new BreakableObjectStore(await ObjectStoreServer.start({ env }), faults)
  }

  /** Puts the store under load until the test is over. Only one load for each store, as the names of its buckets are fixed. */
  async load(context: TestContext): Promise<Load> {
    const load = await Load.start(this.server, { seed: seedOf(context) })
    context.after(() => load.abandon())
    this.noteLogOf(context)
    return load
  }

  async health(): Promise<number> {
    return (await this.server.request('GET', '/health')).status
  }
}

/** Asserts that the request was refused, and that the same request may succeed later. */
export function assertFailed(reply: ObjectReply, code: 'InternalError' | 'ServiceUnavailable'): void {
  const status = code === 'InternalError' ? 500 : 503
  assert.deepEqual([reply.status, reply.header('x-obj-error-code')], [status, code], reply.text)
  assert.equal(reply.header('x-obj-error-retryable'), 'true', reply.text)
  assert.equal(reply.header('x-obj-error-category'), 'server')
}

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JaegerServices, RECHECK_MS } from '../../../src/logstore/reads/jaeger-services.ts'
import type { Look } from '../../../src/logstore/reads/jaeger-services.ts'
import { refusal } from '../../../src/logstore/refusals.ts'

const SPANS: Look = { hasSpans: true, isAll: false }
const NONE: Look = { hasSpans: false, isAll: true }
const NONE_OF_THE_NEWEST: Look = { hasSpans: false, isAll: false }

describe('a service of Jaeger', () => {
  let nowMs = 0
  const services = new JaegerServices(() => nowMs)
  const has = (tenant: string, look: Look) => services.has(tenant, 'shop', () => Promise.resolve(look))
  const later = (): void => void (nowMs += RECHECK_MS)

  it('is kept, and is none any more once all of its spans have expired', async () => {
    assert.equal(await has('acme', NONE_OF_THE_NEWEST), false)
    assert.equal(await has('acme', SPANS), true)
    assert.equal(await has('acme', NONE), true, 'it was looked at a moment ago')
    assert.equal(await has('other', NONE), false, 'each tenant has services of its own')
    later()
    assert.equal(await has('acme', NONE), false)
    assert.equal(await has('acme', NONE_OF_THE_NEWEST), false)
  })

  it('stays one while its spans may be older than what was looked at', async () => {
    assert.equal(await has('acme', SPANS), true)
    later()
    assert.equal(await has('acme', NONE_OF_THE_NEWEST), true)
    later()
    const late = refusal('deadline_exceeded', 'late')
    assert.equal(await services.has('acme', 'shop', () => Promise.resolve(late)), late)
    assert.equal(await has('acme', NONE), false)
  })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OtherSenders, Senders } from '../../src/logstore/senders.ts'

/** Senders at 0 ms, and whether another tenant than the given one is sending. */
function rig() {
  const clock = { ms: 0 }
  const senders = new Senders(() => clock.ms)
  const others = new OtherSenders(senders.shared)
  const besides = (tenant: string): boolean => {
    others.readFor(tenant)
    return others.areSending(clock.ms)
  }
  return { clock, senders, besides }
}

test('at first nobody sends', () => {
  const { besides } = rig()
  assert.equal(besides('a'), false)
  assert.equal(besides(''), false)
})

test('a tenant that sends is another for all but itself', () => {
  const { senders, besides } = rig()
  senders.sent('a')
  assert.equal(besides('a'), false)
  assert.equal(besides('b'), true)
  assert.equal(besides(''), true)
})

test('of two that send each is another for the other one, whichever was the last', () => {
  const { senders, besides } = rig()
  for (const tenant of ['a', 'b', 'b', 'a', 'a']) senders.sent(tenant)
  assert.equal(besides('a'), true)
  assert.equal(besides('b'), true)
  assert.equal(besides('c'), true)
})

test('a tenant sends until a second after its last request', () => {
  const { clock, senders, besides } = rig()
  senders.sent('a')
  clock.ms = 900
  senders.sent('b')
  assert.equal(besides('b'), true)
  clock.ms = 1000
  assert.equal(besides('b'), false)
  assert.equal(besides('a'), true)
  clock.ms = 1900
  assert.equal(besides('a'), false)
  senders.sent('a')
  assert.equal(besides('a'), false)
  assert.equal(besides('b'), true)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mapInTurns, nextTurn } from '../../src/http/turns.ts'

test('each turn of the event loop serves one who waits, in their order', async () => {
  let turn = 0
  const served: (readonly [who: string, turn: number])[] = []
  let isCounting = true
  const count = (): void => {
    turn += 1
    if (isCounting) setImmediate(count)
  }
  setImmediate(count)
  const work = async (who: string): Promise<void> => {
    for (let i = 0; i < 3; i++) {
      await nextTurn()
      served.push([who, turn])
    }
  }
  await Promise.all([work('a'), work('b')])
  isCounting = false
  assert.deepEqual(
    served.map(([who]) => who),
    ['a', 'b', 'a', 'b', 'a', 'b'],
  )
  assert.equal(new Set(served.map(([, turn]) => turn)).size, served.length)
})

test('few items are mapped at once, many in turns', async () => {
  const few = mapInTurns([1, 2], (item, number) => item + number)
  assert.deepEqual(few, [1, 3])
  const items = Array.from({ length: 1000 }, (_, i) => i)
  const many = mapInTurns(items, (item, number) => item + number)
  assert.ok(many instanceof Promise)
  assert.deepEqual(
    await many,
    items.map((item) => 2 * item),
  )
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Lifecycle } from '../src/lifecycle.ts'

function part(name: string, events: string[], failure?: Error) {
  events.push(`open ${name}`)
  return {
    close: ({ withinMs }: { withinMs: number }): Promise<void> => {
      assert.ok(withinMs >= 0)
      events.push(`close ${name}`)
      return failure ? Promise.reject(failure) : Promise.resolve()
    },
  }
}

describe('a lifecycle', () => {
  it('closes what was opened last first, once', async () => {
    const events: string[] = []
    const running = new Lifecycle()
    await running.open(() => part('a', events))
    await running.open(() => Promise.resolve(part('b', events)))
    await running.close({ withinMs: 100 })
    await running.close({ withinMs: 100 })
    assert.deepEqual(events, ['open a', 'open b', 'close b', 'close a'])
  })

  it('closes what was opened when a later part fails to open, and tells that failure', async () => {
    const events: string[] = []
    const running = new Lifecycle()
    await running.open(() => part('a', events, new Error('closing failed too')))
    await assert.rejects(
      running.open(() => Promise.reject(new Error('no disk'))),
      /no disk/,
    )
    assert.deepEqual(events, ['open a', 'close a'])
  })

  it('closes every part even when one fails, and tells the first failure', async () => {
    const events: string[] = []
    const running = new Lifecycle()
    await running.open(() => part('a', events))
    await running.open(() => part('b', events, new Error('stuck')))
    await assert.rejects(running.close({ withinMs: 100 }), { code: 'close_failed', message: /stuck/ })
    assert.deepEqual(events.slice(2), ['close b', 'close a'])
  })

  it('closes at the same time what was opened beside each other, before what both stand on', async () => {
    const events: string[] = []
    const running = new Lifecycle()
    const { promise: stuck, resolve: goOn } = Promise.withResolvers<void>()
    await running.openBeside(() => part('a', events))
    await running.open(() => part('b', events))
    await running.openBeside(() => ({ close: () => stuck.then(() => void events.push('c goes on')) }))
    await running.openBeside(() => part('d', events, new Error('stuck')))
    const closed = running.close({ withinMs: 100 })
    assert.deepEqual(events.slice(3), ['close b', 'close d'])
    goOn()
    await assert.rejects(closed, { code: 'close_failed', message: /stuck/ })
    assert.deepEqual(events.slice(5), ['c goes on', 'close a'])
  })

  it('waits for one of its signals, and the same again changes nothing', async () => {
    const running = new Lifecycle()
    const signal = running.untilSignal('SIGUSR2', 'SIGWINCH')
    process.emit('SIGWINCH', 'SIGWINCH')
    assert.equal(await signal, 'SIGWINCH')
    assert.deepEqual([process.listenerCount('SIGUSR2'), process.listenerCount('SIGWINCH')], [1, 1]) // no default action
    for (const each of ['SIGUSR2', 'SIGWINCH']) process.removeAllListeners(each)
  })
})

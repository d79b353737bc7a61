import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Lane } from '../../src/pipeline/lane.ts'
import { SpscRing } from '../../src/pipeline/spsc-ring.ts'

/** A started lane, its messages and deaths, and promises of the next ones. */
function startTestLane(filename = 'workers/lane-task.ts') {
  const ring = SpscRing.create(64)
  const messages: unknown[] = []
  const deaths: Error[] = []
  let heard: () => void = () => {}
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await new Promise<void>((resolve) => (heard = resolve))
  }
  const lane = Lane.start({
    name: 'test',
    filename: new URL(filename, import.meta.url),
    workerData: { ring: ring.shared },
    onMessage: (message) => {
      messages.push(message)
      heard()
    },
    onDeath: (error) => {
      deaths.push(error)
      heard()
    },
  })
  const tell = (message: unknown): void => {
    lane.post(message)
    ring.wake()
  }
  const stop = (): Promise<void> => {
    const stopped = lane.stop()
    ring.wake()
    return stopped
  }
  return { lane, messages, deaths, tell, stop, until }
}

describe('a lane', () => {
  it('talks while its task never returns, and stops when asked, with its last words delivered and no death', async () => {
    const { messages, deaths, tell, stop, until } = startTestLane()
    tell('hello')
    await until(() => messages.length === 2)
    await stop()
    assert.deepEqual(messages, ['started', { echo: 'hello' }, 'last words'])
    assert.deepEqual(deaths, [])
  })

  for (const [how, told, message] of [
    ['throws', 'throw', /lane test died: told to throw/],
    ['ends its process', 'exit', /lane test died: worker exited with code: 7/],
    ['returns on its own', 'return', /lane test returned without having been stopped/],
  ] as const) {
    it(`that ${how} is dead exactly once, and can still be stopped and terminated`, async () => {
      const { lane, deaths, tell, until } = startTestLane()
      tell(told)
      await until(() => deaths.length > 0)
      await lane.stop()
      await lane.terminate()
      assert.equal(deaths.length, 1)
      assert.match(deaths[0]!.message, message)
      tell('nobody listens')
    })
  }

  it('that is killed in an endless loop is dead exactly once', async () => {
    const { lane, messages, deaths, tell, until } = startTestLane()
    await until(() => messages.length === 1)
    tell('spin')
    await lane.terminate()
    assert.equal(deaths.length, 1)
  })

  it('that does not react to its stop can be killed without counting as dead', async () => {
    const { lane, messages, deaths, tell, stop, until } = startTestLane()
    await until(() => messages.length === 1)
    tell('spin')
    const stopped = stop()
    await lane.terminate()
    await stopped
    assert.deepEqual(deaths, [])
  })

  it('that throws while stopping makes stop reject', async () => {
    const { messages, deaths, tell, stop, until } = startTestLane()
    await until(() => messages.length === 1)
    tell('throw')
    await assert.rejects(stop(), /told to throw/)
    assert.deepEqual(deaths, [])
  })

  it('whose module does not load is dead exactly once', async () => {
    const { deaths, until } = startTestLane('workers/lane-broken.ts')
    await until(() => deaths.length > 0)
    assert.match(deaths[0]!.message, /does not load/)
  })
})

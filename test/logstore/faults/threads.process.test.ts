import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import type { Load } from '../../../scripts/soak/logstore/load.ts'
import { eventually } from '../../support/waiting.ts'
import { BreakableStore } from './breakable.ts'

/** Lanes are replaced up to five times a minute. */
const DEATHS = 2

const store = await BreakableStore.start({ LOGSTORE_DECODE_LANES: '2' })
const { server, faults } = store
after(() => server.kill())

function loaded(context: TestContext): Load {
  return store.load(context, seedOf(context))
}

const isHealthy = async (): Promise<boolean> => (await store.health()) === 200

/** Kills a lane again and again in the middle of its work, each time where the next trigger says. */
async function killLane(context: TestContext, trigger: (load: Load) => [name: string, content: string]): Promise<void> {
  const load = loaded(context)
  for (let death = 0; death < DEATHS; death++) {
    const before = load.batches.acknowledgedRecords
    await load.during(eventually(() => load.batches.acknowledgedRecords > before + 200))
    const replaced = store.logged('"decode lane ready"')
    faults.set(...trigger(load))
    await load.during(eventually(() => store.logged('"decode lane ready"') > replaced))
    await load.during(eventually(isHealthy))
    await load.check()
  }
  await load.stop()
  await load.checkEverything()
  await server.kill()
  await server.startAgain()
  await load.checkEverything()
}

describe('a lane that dies under load is replaced, nothing acknowledged is missing and nothing is stored twice', () => {
  it('when it is the decode lane, at any moment', (context) =>
    killLane(context, ({ random }) => ['exit-decode', String(random.between(1, 120))]))

  it('when it is the decode lane, between announcing a segment and its first frame', (context) =>
    killLane(context, ({ random }) => ['exit-decode', `${random.between(2, 9)} announceSegment`]))

  it('when it is a decode lane that prepares batches, at any moment', (context) =>
    killLane(context, ({ random }) => ['exit-prepare', String(random.between(1, 120))]))

  it('when it is the journal lane, at any moment', (context) =>
    killLane(context, ({ random }) => ['exit-journal', String(random.between(1, 60))]))
})

describe('while the decode lane is replaced', () => {
  it('requests are refused as retryable and health says so', async (context) => {
    const load = loaded(context)
    await load.during(eventually(() => load.batches.acknowledgedRecords > 200))
    faults.set('exit-decode', '1')
    const unhealthy = async (): Promise<boolean> => {
      const { status, text } = await server.request('/health', null)
      return status === 503 && text.includes('decode lane')
    }
    await load.during(eventually(unhealthy))
    await load.during(eventually(isHealthy))
    await load.stop()
    await load.checkEverything()
    // The senders fail on anything but a typed refusal with Retry-After.
    assert(Object.keys(load.refusals).some((name) => name.startsWith('503')))
  })
})

describe('a thread that dies with a job', () => {
  it('fails the query it worked on as retryable, and the next one is right', async (context) => {
    const load = loaded(context)
    await store.sealing(load, 1)
    await load.stop()
    const ask = () => {
      faults.set('exit-read', '/workers/query.')
      return server.request('/v1/query', { dataset: load.batches.dataset })
    }
    let reply = await ask()
    await eventually(async () => {
      if (reply.status !== 200) return true // else a step that notes frames was the first to read, and its thread died
      reply = await ask()
      return false
    })
    assert.deepEqual(
      [reply.status, reply.rejection().retryable, reply.kind],
      [500, true, 'bundle_read_failed'],
      reply.text,
    )
    await load.checkEverything()
  })

  it('leaves a segment without a sidecar until the next try', async (context) => {
    const load = loaded(context)
    faults.set('exit-write', 'index.bin')
    const failed = (): boolean => store.logged('the sidecar of a segment could not be built') > 0
    await load.during(eventually(failed))
    await load.check()
    const failure = /"segment":"([0-9a-f]{16})".*could not be built/.exec(server.stderr)![1]!
    await load.during(eventually(() => new RegExp(`"segment":"${failure}",.*bundle published`).test(server.stderr)))
    await load.stop()
    await load.checkEverything()
  })
})

/** A broker with its threads and files, whose time the test sets. */
import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import { it } from 'node:test'
import type { TestContext } from 'node:test'
import { loadBrokerConfig } from '../../src/config/broker.ts'
import { LOCAL_CALLER, openHeadlessBroker } from '../../src/broker/headless.ts'
import type { HeadlessBroker } from '../../src/broker/headless.ts'
import { asPromises } from '../../src/engine/as-promises.ts'
import { Lifecycle } from '../../src/lifecycle.ts'
import { systemClock } from '../../src/observability/system-clock.ts'
import { jsonOf } from '../support/broker-world.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { eventually } from '../support/waiting.ts'

const DAY_MS = 86_400_000
const RETENTION_EVERY_MS = 5000

/** A broker that looks for old data when the test calls `look`. */
class Node {
  static async open(
    context: TestContext,
    directory: string,
    flags: readonly (readonly [string, string])[],
    aheadMs: number,
  ): Promise<Node> {
    const running = new Lifecycle()
    const rounds: (() => void)[] = []
    const config = loadBrokerConfig({ MQ_DATA_DIR: directory, ...Object.fromEntries(flags) })
    const clock = {
      ...systemClock,
      wallMs: () => systemClock.wallMs() + aheadMs,
      every(intervalMs: number, task: () => void) {
        if (intervalMs !== RETENTION_EVERY_MS) return systemClock.every(intervalMs, task)
        rounds.push(task)
        return () => {}
      },
    }
    const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
    const { broker } = await openHeadlessBroker({ config, running, logger, clock, random: randomFillSync })
    const node = new Node(running, broker, rounds)
    context.after(() => node.close())
    return node
  }

  readonly #running: Lifecycle
  readonly #broker
  readonly #rounds: readonly (() => void)[]
  #closed: Promise<void> | null = null

  constructor(running: Lifecycle, broker: HeadlessBroker['broker'], rounds: readonly (() => void)[]) {
    this.#running = running
    this.#broker = asPromises(broker.operations)
    this.#rounds = rounds
  }

  async create(stream: string): Promise<void> {
    await this.#broker.createStream(LOCAL_CALLER, stream, {})
  }

  look(): void {
    assert.ok(this.#rounds.length > 0)
    for (const round of this.#rounds) round()
  }

  /** Streams that the audit stream names. */
  async audited(): Promise<(string | null)[]> {
    const page = await this.#broker.audit(LOCAL_CALLER, { startOffset: 0, maxRecords: 1000, format: 'json' })
    return jsonOf<{ events: { stream: string | null }[] }>(page).events.map(({ stream }) => stream)
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#running.close({ withinMs: 10_000 }))
  }
}

it('--audit-retention-days removes the events that are older, as it runs and at the next start, for good', async (context) => {
  const directory = `${temporaryDirectory()}/data`
  const oneDay = [['MQ_AUDIT_RETENTION_DAYS', '1']] as const
  const first = await Node.open(context, directory, oneDay, 0)
  await first.create('old')
  first.look()
  await first.create('a little younger')
  assert.deepEqual(await first.audited(), ['old', 'a little younger'])
  await first.close()

  const second = await Node.open(context, directory, oneDay, DAY_MS + 60_000)
  await second.create('a day later')
  second.look()
  await eventually(async () => (await second.audited()).length === 1)
  assert.deepEqual(await second.audited(), ['a day later'])
  await second.close()

  const third = await Node.open(context, directory, [], 3 * DAY_MS)
  third.look()
  assert.deepEqual(await third.audited(), ['a day later'], 'without the setting all events that there are stay')
  await third.close()
})

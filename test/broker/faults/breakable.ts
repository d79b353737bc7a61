/** A broker with `inject.ts` in every thread of it, and the triggers that break it. */
import type { TestContext } from 'node:test'
import { testSeed } from '../../support/seed.ts'
import { Load } from '../../../scripts/soak/broker/load.ts'
import type { LoadOptions } from '../../../scripts/soak/broker/load.ts'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { Faults } from '../../support/faults.ts'
import { BrokerServer } from '../../support/broker.ts'

/** Segments fill soon: faults hit the making of them too. */
const SEGMENT_BYTES = 1 << 20

export class BreakableBroker {
  readonly server: BrokerServer
  readonly faults: Faults

  /** Killed when the test is over. */
  static async start(context: TestContext): Promise<BreakableBroker> {
    const faults = new Faults()
    const server = await BrokerServer.start({ flags: ['--segment-bytes', String(SEGMENT_BYTES)], env: faults.env })
    context.after(() => server.kill())
    return new BreakableBroker(server, faults)
  }

  private constructor(server: BrokerServer, faults: Faults) {
    this.server = server
    this.faults = faults
  }

  /** Everybody at work, until the test is over. */
  async load(context: TestContext, options: Partial<LoadOptions> = {}): Promise<Load> {
    const seed = testSeed()
    context.diagnostic(`TRILOG_TEST_SEED=${seed} makes the same choices`)
    const load = await Load.start(() => this.server.readyLine.http, { seed, ...options })
    context.after(() => load.abandon())
    return load
  }

  async storage(): Promise<HealthReply['storage']> {
    return (await this.server.get('/health', HealthReply)).storage
  }

  /** How often the broker's log says so. */
  logged(text: string): number {
    return this.server.stderr.split(text).length - 1
  }
}

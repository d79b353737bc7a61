/** A broker that can be broken, under load. */
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import { Load } from '../../../scripts/soak/broker/load.ts'
import type { LoadOptions } from '../../../scripts/soak/broker/load.ts'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { Breakable, Faults } from '../../support/faults.ts'
import { BrokerServer } from '../../support/broker.ts'

/** Small: segments fill soon, so faults also hit the creation of segments. */
const SEGMENT_BYTES = 1 << 20

export class BreakableBroker extends Breakable<BrokerServer> {
  /** Starts a broker, which is killed when the test is over. */
  static async start(context: TestContext): Promise<BreakableBroker> {
    const faults = new Faults()
    const server = await BrokerServer.start({ flags: ['--segment-bytes', String(SEGMENT_BYTES)], env: faults.env })
    context.after(() => server.kill())
    return new BreakableBroker(server, faults)
  }

  /** Puts the broker under load until the test is over. */
  async load(context: TestContext, options: Partial<LoadOptions> = {}): Promise<Load> {
    const load = await Load.start(() => this.server.readyLine.http, { seed: seedOf(context), ...options })
    context.after(() => load.abandon())
    this.noteLogOf(context)
    return load
  }

  async storage(): Promise<HealthReply['storage']> {
    return (await this.server.get('/health', HealthReply)).storage
  }
}

/** The machines for the simulator. */
import { CONFIGS } from '../broker/engine/record-steps.ts'
import { History as BrokerHistory, STEP_KINDS as BROKER_KINDS } from '../broker/engine/history.ts'
import { History as StoreHistory, STEP_KINDS as STORE_KINDS } from '../objectstore/engine/history.ts'
import type { Workload } from './simulator.ts'
import { SITE_STEPS, SitesHistory } from './sites.ts'

const ALWAYS: ReadonlySet<string> = new Set(['step', 'serve', 'freeDisk'])
const CALAMITIES: ReadonlySet<string> = new Set(['reopen', 'journalDies', 'failSync', 'fillDisk', 'digestLaneDies'])

export const WORKLOADS = {
  broker: {
    kinds: BROKER_KINDS,
    always: ALWAYS,
    calamities: CALAMITIES,
    async begin(seed) {
      const history = new BrokerHistory(seed)
      await history.begin(seed % CONFIGS.length)
      return history
    },
  },
  objectstore: {
    kinds: STORE_KINDS,
    always: ALWAYS,
    calamities: CALAMITIES,
    async begin(seed) {
      const history = new StoreHistory(seed)
      await history.begin()
      return history
    },
  },
  replication: {
    kinds: SITE_STEPS,
    always: new Set(['publish', 'flush', 'deliver']),
    calamities: CALAMITIES,
    begin: (seed) => SitesHistory.begin(seed),
  },
} satisfies Record<string, Workload>

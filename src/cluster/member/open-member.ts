/** The membership of a service of this process: real files, and the lane on a thread of its own. */
import type { ClusterSettings } from '../../config/cluster.ts'
import { StoreError } from '../../errors.ts'
import { nodeFiles } from '../../log/node-files.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import type { FromLane } from '../lane/protocol.ts'
import { ClusterMember } from './member.ts'
import type { MemberParts } from './member.ts'

export interface MemberOptions {
  readonly settings: ClusterSettings
  readonly service: 'logstore' | 'objectstore' | 'broker'
  readonly directory: string
  readonly segmentsName: string
  readonly arena: SharedArrayBuffer | null
  readonly logger: MemberParts['logger']
  readonly clock: { sharedMs(): number; after(delayMs: number, run: () => void): void }
}

export function openMember({ settings, service, logger, clock, ...log }: MemberOptions): ClusterMember {
  const { servers, credentials, natsTls, name, nodeId, replicas, keepBytes, keepMs, leaseMs, ack, urls, listener } =
    settings
  return new ClusterMember({
    ...log,
    settings: {
      servers,
      credentials,
      natsTls,
      cluster: name,
      service,
      replicas,
      keepBytes,
      keepMs,
      node: nodeId,
      leaseMs,
      ack,
      url: urls[service],
      peerUrl: listener.url,
    },
    files: nodeFiles,
    copy: { finish() {}, run: () => Promise.reject(noCopy()) },
    logger,
    nowMs: () => clock.sharedMs(),
    after: (delayMs, run) => clock.after(delayMs, run),
    startLane: (data, events) => {
      const lane = Lane.start({
        name: `cluster of the ${service}`,
        filename: workerFile('cluster'),
        workerData: data,
        onMessage: (message) => events.onMessage(message as FromLane), // our own lane's, see workers/cluster.ts
        onDeath: (error) => events.onDeath(error),
      })
      return { post: (message) => lane.post(message), stop: () => lane.stop() }
    },
  })
}

const noCopy = (): StoreError =>
  new StoreError(
    'unavailable',
    'cluster_behind',
    'the stream has no longer what this node needs next, and this version copies no log: copy the data directory of a stopped node',
  )

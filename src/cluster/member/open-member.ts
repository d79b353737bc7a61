/** The membership of a service of this process: real files, and the lane on a thread of its own. */
import type { ClusterSettings } from '../../config/cluster.ts'
import { nodeFiles } from '../../log/node-files.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import { logCopyOf } from '../catch-up/log-copy.ts'
import type { FromLane, ToLane } from '../lane/protocol.ts'
import { ClusterMember } from './member.ts'
import type { MemberParts } from './parts.ts'

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
  const { servers, credentials, natsTls, authorities, name, nodeId, replicas, keepBytes, keepMs, leaseMs, ack } =
    settings
  const { urls, listener } = settings
  const where = { directory: log.directory, segmentsName: log.segmentsName }
  const after = (delayMs: number, run: () => void): void => clock.after(delayMs, run)
  return new ClusterMember({
    ...log,
    settings: {
      servers,
      credentials,
      get natsTls() {
        return natsTls ? { ca: authorities?.pem ?? null } : null
      },
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
    copy: logCopyOf({ ...where, service, settings, logger, after }),
    logger,
    nowMs: () => clock.sharedMs(),
    after,
    startLane: (data, events) => {
      const lane = Lane.start({
        name: `cluster of the ${service}`,
        filename: workerFile('cluster'),
        workerData: data,
        onMessage: (message) => events.onMessage(message as FromLane), // our own lane's, see workers/cluster.ts
        onDeath(error) {
          end()
          events.onDeath(error)
        },
      })
      const post = (message: ToLane): void => lane.post(message)
      const end = authorities?.onReadAgain((ca) => post({ kind: 'authorities', ca })) ?? (() => {})
      return {
        post,
        stop() {
          end()
          return lane.stop()
        },
      }
    },
  })
}

/** Opens the listener of a process by its settings. */
import type { Authorities } from '../../config/authorities.ts'
import type { Config } from '../../config/config.ts'
import type { ClusterSettings } from '../../config/cluster.ts'
import { readTls } from '../../config/tls.ts'
import { StoreError } from '../../errors.ts'
import { renewTls } from '../../http/tls.ts'
import { SEGMENTS_NAME_OF } from '../../log/segment-format.ts'
import type { ListeningNode, NodeListener } from './listener.ts'
import { openNodeListener } from './listener.ts'
import type { LogLocation } from './listing.ts'

const TLS_NAMES = {
  certFile: 'TRILOG_CLUSTER_TLS_CERT_FILE',
  keyFile: 'TRILOG_CLUSTER_TLS_KEY_FILE',
  clientCaFile: 'TRILOG_CLUSTER_CA_FILE',
} as const

interface OpenedListener {
  readonly listener: NodeListener
  readonly settings: ClusterSettings
  /** Reads the certificate's files again, and the authorities of the whole process. */
  reload(): void
}

/** @returns also the settings, completed with the URL at which other nodes reach the listener. @throws StoreError that names the setting */
export async function openListener(
  settings: ClusterSettings,
  services: Config['services'],
  node: ListeningNode,
  logger: { info(details: object, message: string): void; error(details: object, message: string): void },
): Promise<OpenedListener> {
  const { bind, tls, secret, bytesPerSecond, url } = settings.listener
  const readFiles = tls === null ? null : () => readTls(tls, TLS_NAMES)
  const material = readFiles?.() ?? null
  const listener = await openNodeListener(
    {
      bind,
      tls: material && { cert: material.cert, key: material.key },
      logs: logsOf(services),
      secret,
      bytesPerSecond,
    },
    node,
    logger,
  )
  const own = `${tls === null ? 'http' : 'https'}://${listener.address}`
  return {
    listener,
    settings: { ...settings, listener: { ...settings.listener, url: url ?? own } },
    reload() {
      if (readFiles !== null) renewTls(readFiles, [listener], logger)
      if (settings.authorities !== null) readAgain(settings.authorities, logger)
    },
  }
}

function readAgain(authorities: Authorities, logger: Parameters<typeof renewTls>[2]): void {
  try {
    authorities.readAgain()
    logger.info({}, 'authorities read again')
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    logger.error(
      { reason: `${TLS_NAMES.clientCaFile} ${error.message}` },
      'the authorities were not replaced: those before stay in force',
    )
  }
}

function logsOf({ logstore, objectstore, broker }: Config['services']): Readonly<Record<string, LogLocation>> {
  const of = SEGMENTS_NAME_OF
  return {
    ...(logstore && { logstore: { directory: logstore.dataDirectory, segmentsName: of.logstore } }),
    ...(objectstore && { objectstore: { directory: objectstore.dataDirectory, segmentsName: of.objectstore } }),
    ...(broker && { broker: { directory: broker.dataDirectory, segmentsName: of.broker } }),
  }
}

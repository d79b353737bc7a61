/** The listener for other nodes and for `trilog cluster`, as main sees it. */
import type { ClusterSettings } from '../../config/cluster.ts'
import { StoreError, messageOf } from '../../errors.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import type { TlsListener } from '../../http/tls.ts'
import type { LogLocation } from './listing.ts'
import type { Question } from './server.ts'

export interface ListenerTask {
  readonly bind: ClusterSettings['listener']['bind']
  /** In PEM; null: plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | null
  /** By service. */
  readonly logs: Readonly<Record<string, LogLocation>>
  readonly secret: string
  readonly bytesPerSecond: number
}

export type FromListener =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'asked'; readonly id: number; readonly question: Question }

interface Answered {
  readonly id: number
  readonly answer: { readonly reply: unknown } | { readonly problem: string }
}

/** `renewed`: connections from now on get this certificate. */
export type ToListener = Answered | { readonly renewed: NonNullable<ListenerTask['tls']> }

/** What the node does for others. */
export interface ListeningNode {
  /** What it knows of its clusters, by service. */
  nodes(): Readonly<Record<string, unknown>>
  /** @param service null: every service. @param to null: the first node that stands. @returns the services that are handed over. @throws StoreError */
  handOver(service: string | null, to: string | null): readonly string[]
}

export interface NodeListener extends TlsListener {
  /** host:port */
  readonly address: string
  close(): Promise<void>
}

/** @throws StoreError when the address cannot be used */
export async function openNodeListener(
  task: ListenerTask,
  node: ListeningNode,
  logger: { error(details: object, message: string): void },
): Promise<NodeListener> {
  const { host, port } = task.bind
  const opened = Promise.withResolvers<number>()
  const lane = Lane.start({
    name: 'listener for other nodes',
    filename: workerFile('cluster-listener'),
    workerData: task,
    onMessage(message) {
      const told = message as FromListener // our own thread's
      if (told.kind === 'listening') opened.resolve(told.port)
      else if (told.kind === 'asked')
        lane.post({ id: told.id, answer: answerOf(told.question, node) } satisfies ToListener)
      else {
        logger.error({ reason: told.message }, 'the listener for other nodes failed')
        const text = `TRILOG_CLUSTER_BIND: ${host}:${port} cannot be used: ${told.message}`
        opened.reject(new StoreError('invalid', 'cluster_bind_unusable', text))
      }
    },
    onDeath(error) {
      logger.error(
        { reason: messageOf(error) },
        'the listener for other nodes died: no node can copy from this one until it is restarted',
      )
      opened.reject(error)
    },
  })
  try {
    const address = `${host}:${await opened.promise}`
    return {
      address,
      renewTls: ({ cert, key }) => lane.post({ renewed: { cert, key } } satisfies ToListener),
      close: () => lane.stop(),
    }
  } catch (error) {
    await lane.terminate()
    throw error
  }
}

function answerOf(question: Question, node: ListeningNode): Answered['answer'] {
  try {
    if (question.kind === 'nodes') return { reply: node.nodes() }
    return { reply: { handed_over: node.handOver(question.service, question.to) } }
  } catch (error) {
    return { problem: messageOf(error) }
  }
}

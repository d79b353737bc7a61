/** The listener for other nodes, on a thread of its own with a low priority, so that what it reads, checks and sends takes little from clients. */
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { readAnchor } from '../src/cluster/lane/anchor-file.ts'
import type { FromListener, ListenerTask, ToListener } from '../src/cluster/catch-up/listener.ts'
import { EvenReads } from '../src/cluster/catch-up/even-reads.ts'
import { answerOn } from '../src/cluster/catch-up/server.ts'
import { StoreError } from '../src/errors.ts'
import { DirectReads } from '../src/log/direct-reads.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { isStop } from '../src/pipeline/lane-task.ts'
import type { LaneTask } from '../src/pipeline/lane-task.ts'
import { lowerPriority } from '../src/pipeline/niceness.ts'

/** With keepalive, the connection of a node that died silently ends after this delay and some minutes. */
const SOCKETS = { keepAlive: true, keepAliveInitialDelay: 60_000 }

export default async function run({ port, data }: LaneTask<ListenerTask>): Promise<void> {
  lowerPriority()
  const { bind, tls, logs, secret, bytesPerSecond } = data
  const tell = (message: FromListener): void => port.postMessage(message)
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let asked = 0
  const reads = new EvenReads({
    bytesPerSecond,
    direct: (pathOf) => new DirectReads(pathOf),
    nowMs: () => performance.now(),
    after: (delayMs, run) => void setTimeout(run, delayMs),
  })
  const secure = tls === null ? null : createSecureServer({ ...tls, ...SOCKETS })
  const server = secure ?? createServer(SOCKETS)
  const endPieces = answerOn(server, {
    files: nodeFiles,
    logs,
    readAnchor,
    secret,
    readPart: (...place) => reads.read(...place),
    ask(question) {
      const reply = Promise.withResolvers<unknown>()
      asked += 1
      waiting.set(asked, reply)
      tell({ kind: 'asked', id: asked, question })
      return reply.promise
    },
  })
  const ended = Promise.withResolvers<void>()
  port.on('message', (message: unknown) => {
    if (isStop(message)) return ended.resolve()
    const told = message as ToListener // from main, see src/cluster/catch-up/listener.ts
    if ('renewed' in told) return secure?.setSecureContext(told.renewed)
    const { id, answer } = told
    const reply = waiting.get(id)
    waiting.delete(id)
    if ('problem' in answer) reply?.reject(new StoreError('notFound', 'cluster_refused', answer.problem))
    else reply?.resolve(answer.reply)
  })
  server.on('error', (error) => tell({ kind: 'failed', message: error.message }))
  server.listen(bind.port, bind.host, () => {
    const address = server.address()
    tell({ kind: 'listening', port: typeof address === 'object' && address !== null ? address.port : bind.port })
  })
  await ended.promise
  server.close()
  server.closeAllConnections()
  endPieces()
  port.close()
}

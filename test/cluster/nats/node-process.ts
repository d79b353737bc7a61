/** A node as a process: see workers/cluster-node.ts. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { killAtEnd } from '../../support/left-behind.ts'
import { eventually, timePasses } from '../../support/waiting.ts'
import type { NodeReply, NodeRequest } from './workers/cluster-node.ts'

const WORKER = fileURLToPath(new URL('workers/cluster-node.ts', import.meta.url))
const ANSWER_TIMEOUT_MS = 1500

/** The answer as a client sees it: null after a timeout. */
export const answerWithinTimeout = (answer: Promise<NodeReply | null>): Promise<NodeReply | null> =>
  Promise.race([answer, timePasses(ANSWER_TIMEOUT_MS).then(() => null)])

export class NodeProcess {
  readonly #servers: string
  readonly #name: string
  #child: ChildProcess | null = null
  readonly #asked = new Map<number, (reply: NodeReply | null) => void>()
  #requests = 0

  constructor(servers: string, name: string) {
    this.#servers = servers
    this.#name = name
  }

  /** Starts until the node has joined the cluster: NATS servers take some time to agree after their start. */
  async start(): Promise<void> {
    await eventually(() => this.#startOnce())
  }

  #startOnce(): Promise<boolean> {
    const child = spawn(process.execPath, [WORKER, this.#servers, this.#name], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#child = child
    killAtEnd(child)
    child.stdin.on('error', () => {})
    return new Promise((resolve) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const reply = JSON.parse(line) as NodeReply
        if (reply.request === 0) return resolve(true)
        this.#asked.get(reply.request)?.(reply)
        this.#asked.delete(reply.request)
      })
      child.once('exit', () => {
        resolve(false)
        for (const answer of this.#asked.values()) answer(null)
        this.#asked.clear()
      })
    })
  }

  /** Null: there will be no answer. A stopped process answers when it goes on. */
  async ask(request: Omit<NodeRequest, 'request'>): Promise<NodeReply | null> {
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return null
    this.#requests += 1
    const number = this.#requests
    const answered = new Promise<NodeReply | null>((resolve) => this.#asked.set(number, resolve))
    child.stdin!.write(`${JSON.stringify({ request: number, ...request })}\n`)
    return answered
  }

  signal(signal: NodeJS.Signals): void {
    this.#child!.kill(signal)
  }

  kill(): void {
    this.#child?.kill('SIGKILL')
  }
}

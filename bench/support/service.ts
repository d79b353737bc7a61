/** A service in a process of its own, for the benchmarks that measure it from outside. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import type { OutgoingHttpHeaders } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const agent = new Agent({ keepAlive: true, maxSockets: 8 })

export class Service {
  readonly url: string
  /** From the start of the process to its ready line. */
  readonly readyMs: number
  readonly #process: ChildProcess

  static async start(name: string, env: Readonly<Record<string, string>>): Promise<Service> {
    const begunMs = performance.now()
    const child = spawn(process.execPath, ['--v8-pool-size=0', 'src/start.js', '--services', name], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TRILOG_LOG_LEVEL: 'warn', ...env },
    })
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith('ready ')) continue
      const { http } = JSON.parse(line.slice('ready '.length)) as { http: string }
      return new Service(child, `http://${http}`, performance.now() - begunMs)
    }
    throw new Error(`the ${name} did not start`)
  }

  private constructor(child: ChildProcess, url: string, readyMs: number) {
    this.#process = child
    this.url = url
    this.readyMs = readyMs
  }

  get pid(): number {
    return this.#process.pid! // it has printed its ready line
  }

  /** The most memory that it had at once. */
  get peakBytes(): number {
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8'))!
    return Number(kib) * 1024
  }

  /** A request of JSON for JSON over a connection that is kept; throws on a refusal. */
  async send<Answer>(method: string, path: string, body: string, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
    const answer = await this.sendForBytes(method, path, body, headers)
    return JSON.parse(answer.toString()) as Answer
  }

  /** As `send`, for an answer of any kind. */
  sendForBytes(
    method: string,
    path: string,
    body: string | Buffer,
    headers: OutgoingHttpHeaders = {},
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const sent = request(`${this.url}${path}`, { method, agent, headers }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => {
          const answer = Buffer.concat(chunks)
          if (response.statusCode! < 300) resolve(answer)
          else reject(new Error(`${path}: ${response.statusCode} ${answer.toString()}`))
        })
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }

  /** Resolves when the log store has compacted what it holds, but for the segment that is being written. */
  async compacted(): Promise<void> {
    for (;;) {
      const metrics = (await this.sendForBytes('GET', '/metrics', '')).toString()
      const [, bytes] = /^logstore_compaction_debt_bytes (\S+)$/m.exec(metrics)!
      if (Number(bytes) === 0) return
      await sleep(1000)
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill(signal)
    await exited
    agent.destroy() // its connections are gone
  }
}

/** How long a call takes. */
export async function timed<T>(call: () => Promise<T>): Promise<{ readonly result: T; readonly ms: number }> {
  const begunMs = performance.now()
  const result = await call()
  return { result, ms: performance.now() - begunMs }
}

export function row(name: string, samplesMs: readonly number[]): string {
  const sorted = samplesMs.toSorted((a, b) => a - b)
  const at = (share: number): string =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!.toFixed(2)
  return `${name.padEnd(28)} p50 ${at(0.5)} ms  p90 ${at(0.9)} ms  p99 ${at(0.99)} ms  max ${at(1)} ms`
}

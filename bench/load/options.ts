/** Command-line options: one table per service gives the parser, the defaults and the help text. */
import { parseArgs } from 'node:util'

/** The user asked for something that cannot work: one line, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

interface OptionSpec {
  readonly type: 'string' | 'boolean'
  /** What the help shows behind the name, such as `N`. */
  readonly value?: string
  readonly default?: string | boolean
  readonly help: string
}

export type OptionTable = Readonly<Record<string, OptionSpec>>

/** Options every service understands. */
export const sharedOptions: OptionTable = {
  url: { type: 'string', value: 'URL', help: 'the server: http://host:port' },
  connections: {
    type: 'string',
    value: 'N',
    default: '16',
    help: 'keep-alive connections, one request in flight on each',
  },
  duration: { type: 'string', value: 'TIME', help: 'how long to send: 500ms, 5m, 1h (default 60s without --batches)' },
  batches: {
    type: 'string',
    value: 'N',
    help: 'send N requests, or do N cycles; with --duration, whichever is reached first',
  },
  rate: {
    type: 'string',
    value: 'N',
    help: 'open loop: N records/s, latency from the intended start (absent: closed loop)',
  },
  'warm-up': {
    type: 'string',
    value: 'TIME',
    default: '0s',
    help: 'leave the first TIME out of the latencies: both sides compile their code then, and this one is late',
  },
  timeout: { type: 'string', value: 'TIME', default: '30s', help: 'give up on a request after this time' },
  'obey-retry-after': {
    type: 'boolean',
    help: 'a refused connection waits as long as the server asked (default: in the closed loop only; --no-obey-retry-after presses on)',
  },
  seed: {
    type: 'string',
    value: 'N',
    help: 'same seed, same records and ids, only the times differ (default: random)',
  },
  verify: { type: 'boolean', default: false, help: 'afterwards, ask the server for what it acknowledged' },
  report: { type: 'string', value: 'FILE', help: 'write a self-contained HTML page with plots' },
  json: { type: 'boolean', default: false, help: 'print the result as JSON on stdout' },
  'disk-dir': {
    type: 'string',
    value: 'DIR',
    help: "where to measure the disk's own write rate (default: ./data, else the temporary directory)",
  },
  'disk-time': {
    type: 'string',
    value: 'TIME',
    default: '1s',
    help: 'how long to measure it, before and after the load; 0s: not at all',
  },
  'allow-remote': { type: 'boolean', default: false, help: 'permit a target that is not this machine' },
  help: { type: 'boolean', default: false, help: 'this text' },
}

/** Typed access to parsed options; every complaint names the option. */
export class OptionValues {
  readonly #values: Readonly<Record<string, string | boolean | undefined>>

  constructor(values: Readonly<Record<string, string | boolean | undefined>>) {
    this.#values = values
  }

  flag(name: string): boolean {
    return this.#values[name] === true
  }

  /** Null when neither `--name` nor `--no-name` was given. */
  flagOrNull(name: string): boolean | null {
    const value = this.#values[name]
    return typeof value === 'boolean' ? value : null
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined
  }

  text(name: string): string {
    const value = this.#values[name]
    if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} needs a value`)
    return value
  }

  /** Text that goes into an HTTP header. */
  headerText(name: string): string {
    const value = this.text(name)
    if (!/^[\x21-\x7e]+$/.test(value)) throw new UsageError(`--${name} must be visible ASCII without spaces`)
    return value
  }

  /** Text that goes into a path as it is. */
  pathToken(name: string): string {
    const value = this.text(name)
    if (!/^[\w.-]{1,256}$/.test(value)) throw new UsageError(`--${name} must be letters, digits, '.', '_' and '-'`)
    return value
  }

  choice<T extends string>(name: string, choices: readonly T[]): T {
    const value = this.text(name)
    const chosen = choices.find((choice) => choice === value)
    if (chosen === undefined) throw new UsageError(`--${name} must be one of ${choices.join(', ')}, not '${value}'`)
    return chosen
  }

  integer(name: string, min: number, max: number): number {
    const value = Number(this.text(name).replaceAll('_', ''))
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new UsageError(`--${name} must be a whole number from ${min} to ${max}, not '${this.text(name)}'`)
    }
    return value
  }

  durationMs(name: string, minMs: number): number {
    const text = this.text(name)
    const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text)
    const unitsMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }
    const value = match === null ? NaN : Number(match[1]) * (unitsMs[match[2] ?? ''] ?? NaN)
    if (!(value >= minMs && value <= 24 * 3_600_000)) {
      throw new UsageError(`--${name} must be a time such as 500ms, 60s or 5m (at most 24h), not '${text}'`)
    }
    return value
  }
}

/** @throws UsageError for an unknown option, a missing value or a stray argument */
export function parseOptions(args: readonly string[], table: OptionTable): OptionValues {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: Object.fromEntries(
        Object.entries(table).map(([name, { type, default: value }]) => [
          name,
          value === undefined ? { type } : { type, default: value },
        ]),
      ),
      allowNegative: true,
    })
    return new OptionValues(values)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'))) throw error
    throw new UsageError(error.message.split(/[\n.] /)[0] ?? error.message)
  }
}

export function formatOptions(table: OptionTable): string {
  return Object.entries(table)
    .map(([name, { value, default: fallback, help }]) => {
      const usage = value === undefined ? `--${name}` : `--${name} ${value}`
      const shown = typeof fallback === 'string' ? `${help} (default ${fallback})` : help
      return `  ${usage.padEnd(24)}  ${shown}`
    })
    .join('\n')
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/**
 * @returns host and port of `--url`
 * @throws UsageError when it is not a plain http:// origin, or not this machine and `--allow-remote` is missing
 */
export function parseTarget(options: OptionValues): { host: string; port: number; authority: string } {
  const text = options.text('url')
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.protocol !== 'http:' || url.pathname !== '/' || url.search !== '' || url.username !== '') {
    throw new UsageError(`--url must be http://host:port without a path, not '${text}'`)
  }
  if (!LOOPBACK.test(url.hostname) && !options.flag('allow-remote')) {
    throw new UsageError(
      `${url.hostname} is not this machine; add --allow-remote if you are permitted to load that server`,
    )
  }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? 80 : Number(url.port),
    authority: url.host,
  }
}

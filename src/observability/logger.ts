/**
 * Structured logs on stderr, one JSON object a line. Written at once: what was logged before a crash is there.
 * A request is named by its id. Tokens, payloads and record bodies are never logged, nor what a URL holds of secrets.
 */
import type { DestinationStream, Logger as PinoLogger } from 'pino'
import type * as Pino from 'pino'
import { requirePackage } from '../require-package.ts'
import { withoutUrlSecrets } from '../url-secrets.ts'

const { pino } = requirePackage('pino') as typeof Pino

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** The methods that services need. */
export interface Logger {
  debug(details: object, message: string): void
  info(details: object, message: string): void
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

/** Members that would give a secret away if a request, its headers or a credential were logged by mistake. */
const SECRETS = ['authorization', 'token', 'secret_access_key', 'cookie']

export function createLogger(level: LogLevel, destination: DestinationStream = stderr()): PinoLogger & Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
    },
    { write: (line) => destination.write(withoutUrlSecrets(line)) },
  )
}

/** A line that cannot be written, as on a full disk, is lost. Without a new destination, the old one would keep it and all later lines in memory. */
function stderr(): DestinationStream {
  let destination: ReturnType<typeof pino.destination>
  const begin = (): void => {
    destination = pino.destination({ dest: 2, sync: true })
    destination.on('error', begin)
  }
  begin()
  return { write: (line) => void destination.write(line) }
}

/** A logger whose lines all name their service. @param level instead of that of the process */
export function loggerOf(logger: PinoLogger, service: string, level?: LogLevel): Logger {
  return logger.child({ service }, level === undefined ? {} : { level })
}

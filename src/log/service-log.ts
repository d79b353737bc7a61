/** The log of a service: a failure to open it names the settings involved, and damage is logged. */
import { StoreError } from '../errors.ts'
import { Log } from './log.ts'
import type { LogOptions } from './log.ts'
import { incidentIdOf } from './quarantine.ts'
import { segmentName } from './segment-format.ts'

export interface ServiceLogParts {
  /** The settings that name the directories. */
  readonly settings: readonly string[]
  readonly logger: Readonly<Record<'warn' | 'error', (details: object, message: string) => void>>
}

/** @throws StoreError as `Log.open`, and for what the file system throws */
export async function openServiceLog(
  options: Omit<LogOptions, 'onIncident' | 'onRemade'>,
  { settings, logger }: ServiceLogParts,
): Promise<Log> {
  try {
    return await Log.open({
      ...options,
      onIncident: (incident) => {
        const { segmentBase, from, to, reason } = incident
        logger.error(
          { incident: incidentIdOf(incident), segment: segmentName(segmentBase), from, to, reason },
          'quarantine incident: a range of the log is damaged',
        )
      },
      onRemade: (directory) =>
        logger.warn(
          { directory },
          'a directory held no log that could be read: it was filled again from the other directories',
        ),
    })
  } catch (error) {
    throw openFailure(settings.join(', '), error)
  }
}

/** The error of a service that cannot open what is in its directories. @param where what the message begins with: settings, directories */
export function openFailure(where: string, error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const [kind, code] =
    error instanceof StoreError ? [error.kind, error.code] : (['unavailable', 'data_directory_unusable'] as const)
  return new StoreError(kind, code, `${where}: ${error.message}`, { cause: error })
}

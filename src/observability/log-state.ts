/** The state of a log, and of its disk, for operators: each change is a line in the log of its service, and health shows why the log takes nothing. */
import { isDeepStrictEqual } from 'node:util'
import { messageOf } from '../errors.ts'
import type { Log, LogState } from '../log/log.ts'
import { ACKNOWLEDGED_NAME, incidentIdOf } from '../log/quarantine.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import type { Degradation } from './health.ts'
import type { Logger } from './logger.ts'

/** Names in a list for people. */
const NAMED_MAX = 3

/**
 * Logs each change of the state, and the state that the log opened in, unless all is well.
 *
 * @param name  of the log: a service may have two
 */
export function reportLogState(
  log: Pick<Log, 'state' | 'onStateChange' | 'onFull'>,
  logger: Pick<Logger, 'info' | 'warn' | 'error'>,
  name = 'the log',
): void {
  let reported: LogState = { kind: 'ok' }
  const report = (state: LogState): void => {
    if (state.kind === 'closed' || isDeepStrictEqual(state, reported)) return
    reported = state
    if (state.kind === 'ok') logger.info({}, `${name} is ok again`)
    else logger.error({ code: state.code, reason: state.message }, `${name} is ${state.kind}`)
  }
  report(log.state)
  log.onStateChange(report)
  log.onFull((isFull) => {
    if (isFull) logger.warn({}, `the disk of ${name} is full: nothing new is accepted until there is room`)
    else logger.info({}, `the disk of ${name} has room again`)
  })
}

/** Null while the log takes writes. In a cluster, a restart in place is a part of following, and no problem. */
export function logProblem({ state, cluster }: Pick<Log, 'state' | 'cluster'>): string | null {
  const isProblem = state.kind === 'read-only' || (state.kind === 'restarting' && cluster === null)
  return isProblem ? `${state.kind}: ${state.message}` : null
}

/** After an operator may have acknowledged incidents. */
export function rereadAcknowledged(
  log: Pick<Log, 'directory' | 'openIncidents' | 'readAcknowledged'>,
  logger: Pick<Logger, 'info' | 'error'>,
): void {
  const before = log.openIncidents.length
  try {
    log.readAcknowledged()
  } catch (error) {
    const reason = messageOf(error)
    logger.error(
      { reason },
      `${log.directory}/${ACKNOWLEDGED_NAME} cannot be read: incidents that were acknowledged before stay acknowledged`,
    )
    return
  }
  const open = log.openIncidents.length
  if (open !== before) logger.info({ acknowledged: before - open, open }, 'quarantine incidents were acknowledged')
}

/** Troubles of a log that continues to work. */
export function logDegradations(
  log: Pick<Log, 'directory' | 'lostReplicas' | 'openIncidents'>,
): readonly Degradation[] {
  const acknowledge =
    `restore ${log.directory} from a backup or a replica and restart; or write the ids as lines into ` +
    `${log.directory}/${ACKNOWLEDGED_NAME} and send SIGHUP`
  return [...lostReplicas(log), ...damage(log.openIncidents, acknowledge)]
}

export function lostReplicas({ lostReplicas }: Pick<Log, 'lostReplicas'>): readonly Degradation[] {
  if (lostReplicas.length === 0) return []
  const reasons = lostReplicas.map(({ directory, reason }) => `replica directory ${directory} is lost: ${reason}`)
  const action =
    'bring the directory back with its files, and it is updated while the service runs; if it is empty, a restart fills it'
  return [{ kind: 'replica_lost', reason: reasons.join('; '), action }]
}

/** @param open incidents that are not acknowledged */
export function damage(open: readonly QuarantineIncident[], action: string): readonly Degradation[] {
  if (open.length === 0) return []
  const are = open.length === 1 ? '1 quarantine incident is' : `${open.length} quarantine incidents are`
  const named = open.slice(0, NAMED_MAX).map((incident) => `${incidentIdOf(incident)} (${incident.reason})`)
  const more = open.length > NAMED_MAX ? ', …' : ''
  return [{ kind: 'damage', reason: `${are} not acknowledged: ${named.join(', ')}${more}`, action }]
}

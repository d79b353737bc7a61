/** The state of a log, and of its disk, for operators: each change is a line in the log of its service, and why it takes nothing shows in health. */
import { isDeepStrictEqual } from 'node:util'
import type { Log, LogState } from '../log/log.ts'
import type { Logger } from './logger.ts'

/**
 * Also the state that it opened in, unless all is well.
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

/** Null while it takes what comes. */
export function logProblem({ state }: Pick<Log, 'state'>): string | null {
  return state.kind === 'read-only' || state.kind === 'restarting' ? `${state.kind}: ${state.message}` : null
}

/** The state of a log, for operators: each change is a line in the log of its service, and why it takes nothing shows in health. */
import { isDeepStrictEqual } from 'node:util'
import type { Log, LogState } from '../log/log.ts'
import type { Logger } from './logger.ts'

/** Also the state that it opened in, unless all is well. */
export function reportLogState(
  log: Pick<Log, 'state' | 'onStateChange'>,
  logger: Pick<Logger, 'info' | 'error'>,
): void {
  let reported: LogState = { kind: 'ok' }
  const report = (state: LogState): void => {
    if (state.kind === 'closed' || isDeepStrictEqual(state, reported)) return
    reported = state
    if (state.kind === 'ok') logger.info({}, 'the log is ok again')
    else logger.error({ code: state.code, reason: state.message }, `the log is ${state.kind}`)
  }
  report(log.state)
  log.onStateChange(report)
}

/** Null while it takes what comes. */
export function logProblem({ state }: Pick<Log, 'state'>): string | null {
  return state.kind === 'read-only' || state.kind === 'restarting' ? `${state.kind}: ${state.message}` : null
}

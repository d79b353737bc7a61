/** Settings that are not of one service. */
import { LOG_LEVELS } from '../observability/logger.ts'
import { flag, oneOf } from './settings.ts'

export const processSettings = {
  TRILOG_ALLOW_INSECURE_BIND: flag({
    default: '0',
    description:
      '1: start on an address that is not loopback even with development credentials, or without authentication',
  }),
  TRILOG_LOG_LEVEL: oneOf(LOG_LEVELS, {
    default: 'info',
    description: `Least level that is logged: ${LOG_LEVELS.join(', ')}`,
  }),
}

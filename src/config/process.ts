/** Settings of the process, apart from those of its services. */
import { LOG_LEVELS } from '../observability/logger.ts'
import { tracingSettings } from './tracing.ts'
import { addressBlocks, flag, hosts, integer, oneOf, oneOrMoreOf, optional, path, share } from './settings.ts'

const SERVICES = ['logstore', 'objectstore', 'broker'] as const

/** The services that a setting with a mistake names, so that their settings are checked nevertheless. */
export const servicesNamed = (text = ''): ReadonlySet<(typeof SERVICES)[number]> =>
  new Set(SERVICES.filter((service) => text.split(',').some((word) => word.trim() === service)))

/** For `trilog`; `mq` always starts the broker alone. */
export const startSettings = {
  TRILOG_SERVICES: oneOrMoreOf(SERVICES, {
    default: SERVICES.join(),
    description: 'Services that this process starts, separated by commas: `logstore`, `objectstore`, `broker`',
  }),
}

export const processSettings = {
  ...tracingSettings,
  TRILOG_CONFIG: optional(
    path({
      description:
        'File of settings, one `NAME=value` on a line, # before comments; a variable of the environment wins over its line',
    }),
  ),
  TRILOG_ALLOW_INSECURE_BIND: flag({
    default: '0',
    description:
      '1: start on an address that is not loopback even with development credentials, or without authentication',
  }),
  TRILOG_ALLOWED_HOSTS: hosts({
    default: '',
    description:
      'Comma-separated names and addresses that `Host` may have where requests need no credentials, besides loopback and the bind address',
  }),
  TRILOG_TRUSTED_PROXIES: addressBlocks({
    default: '',
    description:
      'Comma-separated addresses and CIDR blocks of proxies whose `x-forwarded-for` and `x-forwarded-proto` are trusted',
  }),
  TRILOG_DRAIN_SECONDS: integer({
    default: 0,
    min: 0,
    max: 3600,
    description:
      'How long requests are still served after SIGTERM while `/readyz` answers 503, so that load balancers notice',
  }),
  TRILOG_ACCESS_LOG: share({
    default: 'off',
    description:
      'Requests that get a line in the log, with caller, request and outcome: `off`, `all`, or a share as in `0.01`',
  }),
  TRILOG_AUDIT_LOG: flag({
    default: '1',
    description:
      '1: log deletes and changes of access in the object store, and changes of tenants and keys, at any TRILOG_LOG_LEVEL',
  }),
  TRILOG_LOG_LEVEL: oneOf(LOG_LEVELS, {
    default: 'info',
    description: `Lowest level that is logged: ${LOG_LEVELS.join(', ')}`,
  }),
  TRILOG_METRICS_SERIES_MAX: integer({
    default: 1000,
    min: 0,
    max: 100_000,
    description:
      'Consumer groups, datasets or buckets with series of their own in the metrics of a service; the rest is summed as `other`',
  }),
}

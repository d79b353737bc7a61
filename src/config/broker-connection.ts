/** Limits of the broker's streaming connections that operators set. The fixed limits are in src/broker/connection/limits.ts. */
import { flagged } from './flagged.ts'
import {
  BROKER_CONNECTIONS,
  BROKER_CREDIT,
  BROKER_IN_FLIGHT,
  BROKER_MESSAGE_BYTES,
  BROKER_TENANT_CONNECTIONS,
} from './limits.ts'
import { integer, optional } from './settings.ts'
import type { SettingsOf } from './settings.ts'

export interface ConnectionLimits {
  readonly connectionsMax: number
  readonly tenantConnectionsMax: number
  /** Operations of one connection that are not answered yet, a frame of many records counting as one. */
  readonly inFlightMax: number
  /** Deliveries that the client of a subscription may be given at any time. */
  readonly creditMax: number
  /** A longer message closes its connection. */
  readonly messageBytesMax: number
}

export const connectionSettings = {
  MQ_MAX_CONNECTIONS: flagged(
    '--max-connections <N>',
    integer({
      ...BROKER_CONNECTIONS,
      description: 'Streaming connections at once; further ones are refused with `quota_exceeded`',
    }),
  ),
  MQ_MAX_TENANT_CONNECTIONS: flagged(
    '--max-tenant-connections <N>',
    integer({
      ...BROKER_TENANT_CONNECTIONS,
      description: 'Streaming connections of one tenant at once',
    }),
  ),
  MQ_MAX_IN_FLIGHT: flagged(
    '--max-in-flight <N>',
    integer({
      ...BROKER_IN_FLIGHT,
      description:
        'Unanswered operations of a streaming connection; a frame of many records counts as one. Further ones are refused with `quota_exceeded`',
    }),
  ),
  MQ_MAX_CREDIT: flagged(
    '--max-credit <N>',
    integer({
      ...BROKER_CREDIT,
      description:
        'Largest credit of a subscription of a streaming connection: deliveries that it may request in advance',
    }),
  ),
  MQ_MAX_MESSAGE_BYTES: flagged(
    '--max-message-bytes <N>',
    optional(
      integer({
        ...BROKER_MESSAGE_BYTES,
        description:
          'Longest message of a streaming connection; a longer one closes it. Unset: as `--max-body-bytes`, and 1 MiB at least',
      }),
    ),
  ),
}

/** @param bodyBytesMax MQ_MAX_BODY_BYTES */
export function connectionLimitsOf(
  settings: SettingsOf<typeof connectionSettings>,
  bodyBytesMax: number,
): ConnectionLimits {
  return Object.freeze({
    connectionsMax: settings.MQ_MAX_CONNECTIONS,
    tenantConnectionsMax: settings.MQ_MAX_TENANT_CONNECTIONS,
    inFlightMax: settings.MQ_MAX_IN_FLIGHT,
    creditMax: settings.MQ_MAX_CREDIT,
    messageBytesMax: settings.MQ_MAX_MESSAGE_BYTES ?? Math.max(BROKER_MESSAGE_BYTES.min, bodyBytesMax),
  })
}

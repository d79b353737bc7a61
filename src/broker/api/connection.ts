/**
 * The route of the streaming connection: it identifies the caller before the upgrade. The messages are in `../connection/`.
 *
 * N1  a browser cannot send headers with a WebSocket, so a key may also come as a sub-protocol: `bearer.` and the key in base64url. It is never
 *     sent back, and never part of a URL
 */
import { Type } from '../../schema.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint } from '../../http/routes.ts'
import { refuse } from '../refusals.ts'
import { ErrorReply } from '../wire/answers.ts'
import { BEARER, PROTOCOL } from '../wire/connection-frames.ts'
import type { CredentialHead, Identity } from './access.ts'
import { answerFailure } from './answers.ts'
import type { BrokerHttpParts } from './parts.ts'
import { parseQuery } from './query.ts'
import type { Query, QueryRules } from './query.ts'

const rules: QueryRules<boolean> = {
  parameters: {
    leases: Type.Union([Type.Literal('release'), Type.Literal('keep')], {
      default: 'release',
      description:
        'release: unsettled deliveries are given back as soon as the connection ends; keep: when their leases expire',
    }),
  },
  take(query: Query) {
    const leases = query.get('leases') ?? 'release'
    if (leases === 'release' || leases === 'keep') return leases === 'release'
    throw refuse('invalid_query', 'leases must be release or keep')
  },
}

type Identify = (head: CredentialHead, exchange: Pick<Exchange, 'remoteAddress' | 'clientCertificate'>) => Identity

/** @param identify also tells the node of each caller that it refuses */
export function connection(parts: BrokerHttpParts, identify: Identify): Endpoint {
  const { access, connections } = parts
  return {
    document: {
      summary: 'Extension: the streaming connection, a WebSocket for publishes and deliveries (docs/connection.md)',
      query: Object.entries(rules.parameters).map(([name, schema]) => ({ name, schema })),
      headers: [
        {
          name: 'Sec-WebSocket-Protocol',
          required: false,
          schema: {
            type: 'string',
            description: `${PROTOCOL}; a client that cannot send Authorization adds ${BEARER}<key in base64url>`,
          },
        },
      ],
      replies: [
        { status: 101, description: 'the connection is open' },
        {
          status: 'default',
          description: 'refused: invalid_request, invalid_query, quota_exceeded',
          mediaType: 'application/json',
          schema: ErrorReply,
        },
      ],
    },
    begin(head, exchange) {
      try {
        identify(head, exchange)
        throw refuse('invalid_request', 'this route is a WebSocket: send the request with Upgrade: websocket')
      } catch (error) {
        answerFailure(parts, exchange, error)
      }
    },
    webSocket: {
      messageBytesMax: connections.limits.messageBytesMax,
      accept(head, exchange) {
        try {
          const offered = protocolsOf(head)
          const asking = withKey(head, offered)
          const who = identify(asking, exchange)
          if (offered.length > 0 && !offered.includes(PROTOCOL)) {
            throw refuse('invalid_request', `the sub-protocol must be ${PROTOCOL}`)
          }
          const releasesLeasesOnClose = rules.take(parseQuery(head.query, rules, 'invalid_query'))
          const key = asking.header('authorization')
          const again: CredentialHead = {
            header: (name) => (name === 'authorization' ? key : ''),
            headers: () => new Map(),
          }
          const { clientCertificate } = exchange
          const identifyAgain = (): Identity => access.identify(again, { remoteAddress: '', clientCertificate })
          const listener = connections.open({ who, identify: identifyAgain, releasesLeasesOnClose })
          return { listener, protocol: offered.length > 0 ? PROTOCOL : '' }
        } catch (error) {
          answerFailure(parts, exchange, error)
          return null
        }
      },
    },
  }
}

const protocolsOf = (head: RequestHead): readonly string[] =>
  head
    .header('sec-websocket-protocol')
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')

/** N1 */
function withKey(head: RequestHead, offered: readonly string[]): CredentialHead {
  const token = offered.find((each) => each.startsWith(BEARER))
  if (token === undefined || head.header('authorization') !== '') return head
  const key = `Bearer ${Buffer.from(token.slice(BEARER.length), 'base64url').toString('latin1')}`
  return {
    header: (name) => (name === 'authorization' ? key : head.header(name)),
    headers: () => head.headers(),
  }
}

/**
 * Connects to the NATS servers of the settings, and checks whether they can keep a log.
 *
 * C1  an error that an operator has to fix is `invalid` and names the setting; one that time or another machine may heal is `unavailable`
 * C2  no error text contains a secret
 */
import { AuthorizationError, connect, credsAuthenticator } from '@nats-io/transport-node'
import type { NatsConnection, NodeConnectionOptions, TlsOptions } from '@nats-io/transport-node'
import { StoreError, messageOf } from '../../errors.ts'

/** The oldest version that knows the header for an expected sequence, and metadata of streams. */
const VERSION_MIN = [2, 10] as const
/** Bytes of a message that are reserved for headers. */
const HEADER_BYTES = 4 << 10
const MESSAGE_BYTES_MIN = 64 << 10
const MESSAGE_BYTES_MAX = 1 << 20

/** A server that answers no ping for two or three such times is given up for another one. The client's default is six minutes. */
const PING_MS = 2000
const PINGS_OUT_MAX = 2

interface NatsTls {
  /** Authorities in PEM, read whenever a connection is made; null: those that Node knows. */
  ca: string | null
}

/** How the servers are reached, as the settings say it. */
export interface NatsAccess {
  /** `host:port` each. */
  readonly servers: readonly string[]
  readonly credentials:
    | { readonly kind: 'none' }
    /** Content of the credentials file. */
    | { readonly kind: 'creds'; readonly content: string }
    | { readonly kind: 'user'; readonly user: string; readonly password: string }
    | { readonly kind: 'token'; readonly token: string }
  /** Null: plain text. */
  readonly natsTls: NatsTls | null
}

export function connectionOptionsOf({ servers, credentials, natsTls }: NatsAccess): NodeConnectionOptions {
  return {
    servers: [...servers],
    pingInterval: PING_MS,
    maxPingOut: PINGS_OUT_MAX,
    noAsyncTraces: true, // the client would record an unused stack for each message
    ...(natsTls === null ? {} : { tls: tlsOptionsOf(natsTls) }),
    ...credentialOptionsOf(credentials),
  }
}

/** The client reads these options for each connection, also when it connects again. */
function tlsOptionsOf(natsTls: NatsTls): TlsOptions {
  const { ca } = natsTls
  if (ca === null) return {}
  return {
    get ca() {
      return natsTls.ca ?? ca
    },
  }
}

function credentialOptionsOf(credentials: NatsAccess['credentials']): NodeConnectionOptions {
  switch (credentials.kind) {
    case 'none':
      return {}
    case 'creds':
      return { authenticator: credsAuthenticator(new TextEncoder().encode(credentials.content)) }
    case 'user':
      return { user: credentials.user, pass: credentials.password }
    case 'token':
      return { token: credentials.token }
  }
}

/** C1. The connection finds another server by itself when its own goes. */
export async function connectTo(options: NodeConnectionOptions): Promise<NatsConnection> {
  try {
    return await connect({ ...options, maxReconnectAttempts: -1 })
  } catch (error) {
    throw problemOf(error, options)
  }
}

/**
 * Connects to the server of that name. By way of another server, a message and its acknowledgement would take one more step each.
 *
 * @returns null: no server of the settings has that name, or it cannot be used now
 */
export async function connectToNamed(options: NodeConnectionOptions, name: string): Promise<NatsConnection | null> {
  const servers = [options.servers ?? []].flat()
  for (const server of servers) {
    const connection = await usable({ ...options, servers: first(server, servers), noRandomize: true })
    if (connection?.info?.server_name === name) return connection
    await connection?.close()
  }
  return null
}

/** Puts it before the others, which replace it when it goes. */
const first = (server: string, servers: readonly string[]): string[] => [
  server,
  ...servers.filter((each) => each !== server),
]

/** Null: no server can be reached, or the one that is reached cannot keep a log. */
async function usable(options: NodeConnectionOptions): Promise<NatsConnection | null> {
  const connection = await connectTo(options).catch(() => null)
  try {
    if (connection !== null) checkServer(connection)
    return connection
  } catch {
    await connection!.close()
    return null
  }
}

/** C1. @throws StoreError */
export function checkServer({ info }: Pick<NatsConnection, 'info'>): void {
  const { version = '', max_payload: bytesMax = 0, jetstream: hasJetStream = false } = info ?? {}
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isOld = major < VERSION_MIN[0] || (major === VERSION_MIN[0] && minor < VERSION_MIN[1])
  const least = MESSAGE_BYTES_MIN + HEADER_BYTES
  if (isOld) throw invalid(`NATS server ${version} is too old: upgrade it to ${VERSION_MIN.join('.')} or newer`)
  if (bytesMax < least)
    throw invalid(
      `max_payload of the NATS server is ${bytesMax} bytes, and must be at least ${least}: raise it on every server`,
    )
  if (!hasJetStream) throw invalid('JetStream is off on the NATS server: give its configuration a jetstream block')
}

/** The most bytes that the body of a message may have. */
export const bodyBytesMaxOf = ({ info }: Pick<NatsConnection, 'info'>): number =>
  Math.min(MESSAGE_BYTES_MAX, info!.max_payload - HEADER_BYTES)

/** C1, C2. The client's error texts contain what servers say, which is no secret. */
function problemOf(error: unknown, options: NodeConnectionOptions): StoreError {
  const text = messageOf(error)
  if (error instanceof AuthorizationError) {
    const setting = settingOfCredentials(options)
    return setting === null
      ? invalid('the NATS servers ask for credentials: set TRILOG_CLUSTER_CREDENTIALS_FILE, _USER or _TOKEN')
      : wrong(`${setting}: the NATS servers refuse these credentials`)
  }
  const isTls = options.tls !== undefined
  if (text.includes("does not support 'tls'"))
    return wrong('TRILOG_CLUSTER_TLS: the NATS server speaks no TLS: turn it on there, or off here')
  if (!isTls && isCertificateProblem(error))
    return wrong('TRILOG_CLUSTER_TLS must be 1, with TRILOG_CLUSTER_CA_FILE: the NATS server speaks TLS')
  if (isCertificateProblem(error))
    return wrong(`TRILOG_CLUSTER_CA_FILE: these authorities signed no certificate of a NATS server: ${text}`)
  return new StoreError(
    'unavailable',
    'cluster_unavailable',
    `TRILOG_CLUSTER_SERVERS: no NATS server can be used: ${text}`,
    { cause: error },
  )
}

function settingOfCredentials({ authenticator, user, token }: NodeConnectionOptions): string | null {
  if (authenticator !== undefined) return 'TRILOG_CLUSTER_CREDENTIALS_FILE'
  if (user !== undefined) return 'TRILOG_CLUSTER_USER and TRILOG_CLUSTER_PASSWORD'
  return token === undefined ? null : 'TRILOG_CLUSTER_TOKEN'
}

/** Recognises OpenSSL's words, anywhere in the chain of causes. */
function isCertificateProblem(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  return /CERT|ALTNAME|self.signed|certificate/i.test(`${code} ${error.message}`) || isCertificateProblem(error.cause)
}

const wrong = (message: string): StoreError => new StoreError('invalid', 'cluster_setting_wrong', message)
const invalid = (message: string): StoreError => wrong(`TRILOG_CLUSTER_SERVERS: ${message}`)

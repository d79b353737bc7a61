/** Settings of the console, the web page of the services. */
import { isLoopback } from '../addresses.ts'
import { processSettings } from './process.ts'
import {
  SettingProblems,
  bindAddress,
  serviceUrl,
  isGiven,
  optional,
  orOff,
  readSettings,
  unknownSettings,
} from './settings.ts'
import type { BindAddress, Environment, SettingsOf } from './settings.ts'
import { tlsCertSetting, tlsClientCaSetting, tlsKeySetting, tlsOf } from './tls.ts'
import type { TlsFiles } from '../tls-files.ts'

const CONSOLE_BIND = 'TRILOG_CONSOLE_BIND'

const urlOf = (service: string) =>
  optional(
    serviceUrl({
      description: `Address of the ${service} that the console shows, as in \`http://10.0.0.7:9000\`; unset: the one of this process`,
    }),
  )

export const consoleSettings = {
  [CONSOLE_BIND]: orOff(
    bindAddress({
      default: '127.0.0.1:7480',
      description: 'HTTP listener of the console, host:port; port 0 picks a free one; `off`: no console',
    }),
  ),
  TRILOG_CONSOLE_TLS_CERT_FILE: tlsCertSetting,
  TRILOG_CONSOLE_TLS_KEY_FILE: tlsKeySetting,
  TRILOG_CONSOLE_TLS_CLIENT_CA_FILE: tlsClientCaSetting,
  TRILOG_CONSOLE_LOGSTORE_URL: urlOf('log store'),
  TRILOG_CONSOLE_OBJECTSTORE_URL: urlOf('object store'),
  TRILOG_CONSOLE_BROKER_URL: urlOf('broker'),
}

export const CONSOLE_TLS_NAMES = {
  certFile: 'TRILOG_CONSOLE_TLS_CERT_FILE',
  keyFile: 'TRILOG_CONSOLE_TLS_KEY_FILE',
  clientCaFile: 'TRILOG_CONSOLE_TLS_CLIENT_CA_FILE',
} as const

const settings = {
  ...consoleSettings,
  TRILOG_ALLOW_INSECURE_BIND: processSettings.TRILOG_ALLOW_INSECURE_BIND,
  TRILOG_ALLOWED_HOSTS: processSettings.TRILOG_ALLOWED_HOSTS,
}

export interface ConsoleConfig {
  readonly bind: BindAddress
  /** Null: the listener speaks plain HTTP. */
  readonly tls: TlsFiles | null
  /** True when the operator named this address: a start that cannot bind it fails. A second process does without the default address. */
  readonly isAsked: boolean
  readonly allowedHosts: readonly string[]
  /** Addresses of services elsewhere, without a slash at the end. Null: the service of this process, if it runs. */
  readonly urls: {
    readonly logstore: string | null
    readonly objectstore: string | null
    readonly broker: string | null
  }
  /** Variables that begin with TRILOG_CONSOLE_ and are no settings: worth a warning. */
  readonly unknownSettings: readonly string[]
}

/** Whether requests to each service of this process need credentials; null: the service does not run here. */
export type AskForCredentials = Readonly<Record<keyof ConsoleConfig['urls'], boolean | null>>

/**
 * @param local for the services of this process
 * @returns null: there is no console
 * @throws BadConfiguration
 */
export function loadConsoleConfig(env: Environment, local: AskForCredentials): ConsoleConfig | null {
  const problems = new SettingProblems()
  const read = readSettings(settings, env, problems)
  problems.check(() => checkBind(read, local, problems))
  const tls = tlsOf(
    {
      certFile: read.TRILOG_CONSOLE_TLS_CERT_FILE,
      keyFile: read.TRILOG_CONSOLE_TLS_KEY_FILE,
      clientCaFile: read.TRILOG_CONSOLE_TLS_CLIENT_CA_FILE,
    },
    CONSOLE_TLS_NAMES,
    problems,
  )
  problems.throwIfAny()
  const bind = read[CONSOLE_BIND]
  if (bind === null) return null
  const urls = Object.freeze({
    logstore: withoutSlash(read.TRILOG_CONSOLE_LOGSTORE_URL),
    objectstore: withoutSlash(read.TRILOG_CONSOLE_OBJECTSTORE_URL),
    broker: withoutSlash(read.TRILOG_CONSOLE_BROKER_URL),
  })
  return Object.freeze({
    bind,
    tls,
    isAsked: isGiven(consoleSettings[CONSOLE_BIND], env[CONSOLE_BIND]),
    allowedHosts: read.TRILOG_ALLOWED_HOSTS,
    urls,
    unknownSettings: unknownSettings(consoleSettings, 'TRILOG_CONSOLE_', env),
  })
}

const withoutSlash = (url: string | null): string | null => url?.replace(/\/+$/, '') ?? null

/** A client that reaches the console reaches the services behind it, unless it has to show a certificate first. */
function checkBind(read: SettingsOf<typeof settings>, local: AskForCredentials, problems: SettingProblems): void {
  const bind = read[CONSOLE_BIND]
  if (bind === null || isLoopback(bind.host) || read.TRILOG_ALLOW_INSECURE_BIND) return
  if (read.TRILOG_CONSOLE_TLS_CLIENT_CA_FILE !== null) return
  const elsewhere = {
    logstore: read.TRILOG_CONSOLE_LOGSTORE_URL,
    objectstore: read.TRILOG_CONSOLE_OBJECTSTORE_URL,
    broker: read.TRILOG_CONSOLE_BROKER_URL,
  }
  const services = ['logstore', 'objectstore', 'broker'] as const
  const open = services.filter((service) => elsewhere[service] !== null || local[service] === false)
  if (open.length === 0) return
  problems.add(
    CONSOLE_BIND,
    `must be a loopback address while services behind it may take requests without credentials (${open.join(', ')}): let them require credentials, or set TRILOG_CONSOLE_TLS_CLIENT_CA_FILE, or TRILOG_ALLOW_INSECURE_BIND=1`,
  )
}

/** Options that commands share: where they work, and how they answer. */
import type { Command } from './command.ts'

export const DATA_DIRECTORY = './data/broker'
export const STORE_TARGET = 'http://127.0.0.1:4318'

/** Options that every command of a place has (P1 of program.ts). */
export const COMMON = {
  'data-dir': {
    flags: '--data-dir <PATH>',
    description: `a data directory that no running node uses; default ${DATA_DIRECTORY}`,
  },
  target: { flags: '--target <URL>', description: 'a node: http://host:port; with --tls-ca also https://host:port' },
  'api-key': {
    flags: '--api-key <API_KEY>',
    description: 'sent as Authorization: Bearer; default: the variable MQ_API_KEY',
  },
  'tls-ca': {
    flags: '--tls-ca <PATH>',
    description: 'authorities in PEM that signed the certificate of the node, for a target with https',
  },
  'tls-cert': {
    flags: '--tls-cert <PATH>',
    description: 'client certificate in PEM, for a node that asks for one',
  },
  'tls-key': { flags: '--tls-key <PATH>', description: 'private key of that certificate in PEM, without a passphrase' },
  'store-target': {
    flags: '--target <URL>',
    description: `a log store: http://host:port, with --tls-ca also https://host:port; default: the variable TRILOG_LOGS_TARGET, or ${STORE_TARGET}`,
  },
  tenant: {
    flags: '--tenant <NAME>',
    description: 'tenant that has the records; default: the variable TRILOG_LOGS_TENANT, or the development tenant',
  },
  token: {
    flags: '--token <TOKEN>',
    description: 'sent as Authorization: Bearer; default: the variable TRILOG_LOGS_TOKEN, or the development token',
  },
  output: { flags: '--output <FORMAT>', description: 'text for people (default), or json' },
} as const
export type CommonName = keyof typeof COMMON

/** Options that say which node is asked, and how; they go with `--target`. */
export const REMOTE_NAMES = ['target', 'api-key', 'tls-ca', 'tls-cert', 'tls-key'] as const

const TLS_NAMES = ['tls-ca', 'tls-cert', 'tls-key'] as const
/** Options that say which log store is asked, and how. */
export const STORE_NAMES = ['store-target', 'tenant', 'token', ...TLS_NAMES] as const

export const commonOf = ({ places, options }: Command): readonly CommonName[] => {
  const names: CommonName[] = []
  if (places.includes('local')) names.push('data-dir')
  if (places.includes('remote')) names.push(...REMOTE_NAMES)
  if (places.includes('store')) names.push(...STORE_NAMES)
  return options.some(({ flags }) => flags.startsWith('--output ')) ? names : [...names, 'output']
}

/** All options of a command, as the help shows them. */
export const optionsOf = (command: Command): readonly { readonly flags: string; readonly description: string }[] => [
  ...command.options,
  ...commonOf(command).map((name) => COMMON[name]),
]

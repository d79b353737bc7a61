/**
 * Commands for a shell that ask a service by its own address. No command has a credential: `$MQ_API_KEY`, `$AWS_ACCESS_KEY_ID` and
 * `$AWS_SECRET_ACCESS_KEY` stand for those of the visitor.
 */
import { session } from './session.ts'
import type { ServiceName } from './session.ts'

interface Asked {
  readonly method?: 'PUT'
  /** A file that is sent. */
  readonly file?: string
  readonly json?: object
}

/** @param path of the service, encoded */
export function curlCommand(service: ServiceName, path: string, { method, file, json }: Asked = {}): string {
  const { url = '' } = session.about.services[service] ?? {}
  return [
    'curl',
    ...(method === undefined ? [] : ['-X', method]),
    ...(file === undefined ? [] : ['-T', file]),
    quoted(`${url}${path}`),
    ...credentialsFor(service),
    ...(json === undefined ? [] : ['-H', "'content-type: application/json'", '-d', quoted(JSON.stringify(json))]),
  ].join(' ')
}

function credentialsFor(service: ServiceName): readonly string[] {
  const credentials = session.credentialsOf(service)
  if (credentials?.kind === 'api-key') return ['-H', '"authorization: Bearer $MQ_API_KEY"']
  if (credentials?.kind !== 'access-key') return []
  const signature = `aws:amz:${credentials.region}:s3`
  const user = '"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"'
  return ['--aws-sigv4', signature, '--user', user, '-H', "'x-amz-content-sha256: UNSIGNED-PAYLOAD'"]
}

const quoted = (text: string): string =>
  /^[\w:/.%-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`

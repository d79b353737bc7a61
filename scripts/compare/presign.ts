/**
 * Pre-signed URLs of Signature Version 4, so that every server that knows S3 can be asked with a request that is made once.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
 */
import { createHash, createHmac } from 'node:crypto'

export const ACCESS_KEY_ID = 'COMPARISONKEY'
export const SECRET_ACCESS_KEY = 'comparison-secret-key'
export const REGION = 'us-east-1'
const VALID_SECONDS = 24 * 3600

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * @param path unreserved characters and slashes only
 * @param host with the port
 * @returns the request target
 */
export function presignedTarget(method: string, host: string, path: string, now: Date): string {
  const timestamp = now.toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const scope = `${timestamp.slice(0, 8)}/${REGION}/s3/aws4_request`
  const query = new URLSearchParams({
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${ACCESS_KEY_ID}/${scope}`,
    'X-Amz-Date': timestamp,
    'X-Amz-Expires': String(VALID_SECONDS),
    'X-Amz-SignedHeaders': 'host',
  }).toString()
  const canonical = [method, path, query, `host:${host}\n`, 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const digest = createHash('sha256').update(canonical).digest('hex')
  const key = scope.split('/').reduce<string | Buffer>((key, part) => hmac(key, part), `AWS4${SECRET_ACCESS_KEY}`)
  const signature = hmac(key, ['AWS4-HMAC-SHA256', timestamp, scope, digest].join('\n')).toString('hex')
  return `${path}?${query}&X-Amz-Signature=${signature}`
}

/**
 * The signature of a browser's form: over the policy document, as it stands in its field, in Base64. Version 4 as everywhere,
 * or version 2, an HMAC-SHA1 with the secret itself, which many forms still have.
 */
import { refuse } from '../../refusals.ts'
import type { Principal } from './principal.ts'
import { ALGORITHM, parseCredential, sameSignature, signatureDoesNotMatch, signatureOf, wrongRegion } from './sigv4.ts'
import { parseBasic } from './timestamps.ts'
import { accessKeyOf } from './verify.ts'
import type { SigningRules } from './verify.ts'

/** Value of a field by its lower-case name; undefined when the form has none before the file. */
export type FormFields = (name: string) => string | undefined

const FIELDS_V4 = ['x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-signature'] as const

/** Whether the form carries a signature, be it right or not. */
export const isSignedForm = (field: FormFields): boolean =>
  ['x-amz-signature', 'signature'].some((name) => field(name) !== undefined)

/**
 * @returns the principal whose key signed the policy; null when the form has neither policy nor signature: it is anonymous
 * @throws S3Error
 */
export function verifyFormSignature(field: FormFields, rules: SigningRules): Principal | null {
  if (FIELDS_V4.some((name) => field(name) !== undefined)) return verifyVersion4(field, rules)
  const names = ['AWSAccessKeyId', 'signature', 'policy']
  if (names.every((name) => field(name.toLowerCase()) === undefined)) return null
  const [accessKeyId = '', signature = '', policy = ''] = names.map((name) => demandField(field, name))
  const key = accessKeyOf(rules.credentials, accessKeyId)
  if (!sameSignature(key.hmacSha1(policy), signature)) throw signatureDoesNotMatch(accessKeyId, signature, policy, '')
  return key.principal
}

function verifyVersion4(field: FormFields, rules: SigningRules): Principal {
  const policy = demandField(field, 'policy')
  const [algorithm = '', credentialText = '', date = '', signature = ''] = FIELDS_V4.map((name) =>
    demandField(field, name),
  )
  if (algorithm !== ALGORITHM) {
    throw invalid('X-Amz-Algorithm', algorithm, `Only ${ALGORITHM} is supported`)
  }
  const credential = parseCredential(credentialText)
  if ('problem' in credential) throw invalid('X-Amz-Credential', credentialText, credential.problem)
  if (credential.region !== rules.region) {
    throw invalid('X-Amz-Credential', credentialText, wrongRegion(credential.region, rules.region))
  }
  if (parseBasic(date) === null || !date.startsWith(credential.day)) {
    throw invalid('X-Amz-Date', date, 'X-Amz-Date must be formated via ISO8601 Long format')
  }
  const key = accessKeyOf(rules.credentials, credential.accessKeyId)
  const signingKey = key.signingKey(credential)
  if (!sameSignature(signatureOf(signingKey, policy), signature)) {
    throw signatureDoesNotMatch(credential.accessKeyId, signature, policy, '')
  }
  key.remember(credential, signingKey)
  return key.principal
}

function demandField(field: FormFields, name: string): string {
  const value = field(name.toLowerCase())
  if (value) return value
  throw invalid(
    name,
    '',
    `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`,
  )
}

const invalid = (name: string, value: string, message: string): Error =>
  refuse('InvalidArgument', message, { fields: { ArgumentName: name, ArgumentValue: value.slice(0, 256) } })

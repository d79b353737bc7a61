/** Names in the path of a request, checked by the rules of the routes and refused in their words. Browsers also load this file. */
import { STREAM_NAME_RULE, TOKEN_RULE, isStreamName, isToken } from './names.ts'
import { refuse } from './refusals.ts'

/** @throws BrokerError invalid_request */
export function streamNamed(name: unknown): string {
  if (typeof name === 'string' && isStreamName(name)) return name
  throw refuse('invalid_request', `the stream ${STREAM_NAME_RULE}`)
}

/** @param what the token names @throws BrokerError invalid_request */
export function tokenNamed(token: unknown, what: string): string {
  if (typeof token === 'string' && isToken(token)) return token
  throw refuse('invalid_request', `the ${what} ${TOKEN_RULE}`)
}

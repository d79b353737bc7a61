/** Refusals that are about one header of a request. */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'

/** @param value never a secret */
export const invalidHeader = (name: string, value: string, message: string): S3Error =>
  refuse('InvalidArgument', message, { fields: { ArgumentName: name, ArgumentValue: value.slice(0, 256) } })

export const headerNotImplemented = (name: string): S3Error =>
  refuse('NotImplemented', undefined, {
    fields: { Header: name, additionalMessage: 'It is outside the profile objapi-core-v1' },
  })

/**
 * Pieces of the broker's answers, as schemas: they give the types, serialise and document.
 *
 * Names and ids that were checked when they came in may still need escaping: only what we made ourselves does not. Source of all answers:
 * specification "Resources and their fields", "Shared queue", contract "Broker".
 */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'

export const ApiVersion = Type.Literal('v1')
export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const Acknowledgement = Type.Object({
  durability: Type.String({ description: 'volatile, local-append, local-sync or local-quorum' }),
  durable: Type.Boolean({ description: 'synced to disk before this answer' }),
  replicas: Type.Integer({ description: 'how many directories hold it, at least' }),
})
export type Acknowledgement = Static<typeof Acknowledgement>

/** Milliseconds left of a lease. */
export const LeaseRemaining = Type.Integer({
  description: 'remaining time of the lease when the answer is sent, independent of the clocks of node and client',
})

export const ErrorDetail = Type.Object({
  code: Type.String(),
  message: Type.String(),
  action: Type.String({ description: 'what to do about it' }),
  retryable: Type.Boolean(),
})
export const ErrorReply = Type.Object({ api_version: ApiVersion, error: ErrorDetail })
export type ErrorReply = Static<typeof ErrorReply>

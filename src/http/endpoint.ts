/**
 * A JSON endpoint from its schemas: one object gives the validator, the static types, the serialiser and the document.
 * Schemas compile when the endpoint is made: a bad schema fails the boot, not a request.
 *
 * What is wrong with a request is told in the service's own words and shape: see `EndpointService`.
 */
import fastJsonStringify from 'fast-json-stringify'
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { gatherBody } from './body.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import { mediaTypeOf } from './media-type.ts'
import type { Endpoint, OperationDocument } from './routes.ts'
import { describeProblem } from './validation.ts'

/** Why a request was refused before `handle` saw it. `message` names a field, never a value. */
export interface EndpointRefusal {
  readonly reason: 'mediaType' | 'bodyTooLarge' | 'bodyTimedOut' | 'bodyMalformed' | 'bodyInvalid'
  readonly message: string
}

/** A service's own error shape. */
export interface EndpointService {
  refuse(exchange: Exchange, refusal: EndpointRefusal): void
  /** `handle` threw or rejected: a StoreError becomes what the service says about it, anything else its internal error. */
  fail(exchange: Exchange, error: unknown): void
  /** Error bodies, for the document. */
  readonly errorSchema: TSchema
}

interface EndpointCall<Admitted, Body> {
  readonly admitted: Admitted
  /** undefined without a body schema */
  readonly body: Body
  readonly exchange: Exchange
}

export interface EndpointOptions<Body extends TSchema | undefined, Reply extends TSchema, Admitted> {
  readonly summary: string
  /** Without one the request's body is not read. */
  readonly body?: Body
  readonly reply: Reply
  /** Default 200. */
  readonly status?: number
  /** Codes or kinds a caller must expect, for the document. */
  readonly errors: readonly string[]
  /** Needed with a body. */
  readonly bodyLimitBytes?: number
  /**
   * Looks at the headers before anything is read, and takes from them what `handle` needs: caller, parameters, query. Answers a
   * refused request itself and returns null.
   */
  admit(head: RequestHead, exchange: Exchange): Admitted | null
  handle(
    call: EndpointCall<Admitted, Body extends TSchema ? Static<Body> : undefined>,
  ): Static<Reply> | Promise<Static<Reply>>
}

const JSON_TYPE = 'application/json'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function endpoint<Reply extends TSchema, Admitted, Body extends TSchema | undefined = undefined>(
  service: EndpointService,
  options: EndpointOptions<Body, Reply, Admitted>,
): Endpoint {
  type ParsedBody = Body extends TSchema ? Static<Body> : undefined
  const { body: bodySchema, bodyLimitBytes = 0, status = 200 } = options
  if (bodySchema && bodyLimitBytes <= 0) throw new Error(`${options.summary}: a body needs its bodyLimitBytes`)
  const validator = bodySchema ? Compile(bodySchema) : null
  const stringify = fastJsonStringify({ ...options.reply })

  const run = async (exchange: Exchange, admitted: Admitted, body: ParsedBody): Promise<void> => {
    try {
      const reply = await options.handle({ admitted, body, exchange })
      exchange.answer(status, JSON_TYPE, stringify(reply))
    } catch (error) {
      service.fail(exchange, error)
    }
  }

  const parse = (exchange: Exchange, admitted: Admitted, bytes: Buffer): void => {
    let value: unknown
    try {
      value = JSON.parse(utf8.decode(bytes))
    } catch {
      return service.refuse(exchange, { reason: 'bodyMalformed', message: 'the body is not valid JSON in UTF-8' })
    }
    if (validator && !validator.Check(value)) {
      return service.refuse(exchange, { reason: 'bodyInvalid', message: describeProblem(validator.Errors(value)) })
    }
    void run(exchange, admitted, value as ParsedBody) // just checked against the schema of that type
  }

  return {
    document: documentOf(service, options, status),
    begin(head, exchange) {
      const admitted = options.admit(head, exchange)
      if (admitted === null) return
      if (!bodySchema) {
        void run(exchange, admitted, undefined as ParsedBody) // its type without a body schema
        return
      }
      if (mediaTypeOf(head.header('content-type')) !== JSON_TYPE) {
        return service.refuse(exchange, { reason: 'mediaType', message: `the content type must be ${JSON_TYPE}` })
      }
      gatherBody(exchange, bodyLimitBytes, {
        whole: (bytes) => parse(exchange, admitted, bytes),
        tooLarge: () =>
          service.refuse(exchange, {
            reason: 'bodyTooLarge',
            message: `the body must not exceed ${bodyLimitBytes} bytes`,
          }),
        timedOut: () =>
          service.refuse(exchange, { reason: 'bodyTimedOut', message: 'the body did not arrive in time' }),
      })
    },
  }
}

function documentOf<Body extends TSchema | undefined, Reply extends TSchema, Admitted>(
  service: EndpointService,
  options: EndpointOptions<Body, Reply, Admitted>,
  status: number,
): OperationDocument {
  return {
    summary: options.summary,
    ...(options.body && { requestBody: { mediaTypes: [JSON_TYPE], schema: options.body } }),
    replies: [
      { status, description: 'success', mediaType: JSON_TYPE, schema: options.reply },
      {
        status: 'default',
        description: `refused: ${options.errors.join(', ')}`,
        mediaType: JSON_TYPE,
        schema: service.errorSchema,
      },
    ],
  }
}

/**
 * A JSON endpoint from its schemas: one object gives the check of bodies, the static types, the serialiser and the document.
 * Checks and serialisers are compiled when they are first used (schema-check.ts, serializer.ts).
 *
 * Refusals have the service's own words and shape: see `EndpointService`.
 */
import type { Static, TSchema } from 'typebox'
import { schemaCheck } from '../schema-check.ts'
import { JsonBoundError } from '../../native-free-codecs/json-reader.ts'
import type { LongStringOf } from '../../native-free-codecs/json-reader.ts'
import { freeMemory } from '../free-memory.ts'
import { describeProblem } from '../validation.ts'
import { gatherBody } from './body.ts'
import type { BodyReaders } from './body.ts'
import { isIdentity } from './content-encoding.ts'
import { TIME_OUT_MESSAGES } from './exchange.ts'
import type { Exchange, RequestHead, TimeOut } from './exchange.ts'
import { SHORT_BODY_BYTES, readJsonBody } from './json-body.ts'
import { mediaTypeOf } from './media-type.ts'
import type { Endpoint, OperationDocument } from './routes.ts'
import { serializer } from './serializer.ts'

/** Why a request was refused before `handle` saw it. `message` names a field of the schema, never what the client sent. */
export interface EndpointRefusal {
  readonly reason: 'mediaType' | 'contentEncoding' | 'bodyTooLarge' | 'bodyTimedOut' | 'bodyMalformed' | 'bodyInvalid'
  readonly message: string
}

/** A service's own error shape. */
export interface EndpointService {
  refuse(exchange: Exchange, refusal: EndpointRefusal): void
  /** `admit`, `parse` or `handle` threw: a StoreError becomes what the service says about it, anything else its internal error. */
  fail(exchange: Exchange, error: unknown): void
  /** Error bodies, for the document. */
  readonly errorSchema: TSchema
  /** A body is read as JSON, although its header may name another media type. */
  readonly anyMediaType?: boolean
}

interface EndpointCall<Admitted, Body> {
  readonly admitted: Admitted
  /** undefined without a body schema */
  readonly body: Body
  readonly exchange: Exchange
}

type BodyOf<Body extends TSchema | undefined> = Body extends TSchema ? Static<Body> : undefined

export interface EndpointOptions<Body extends TSchema | undefined, Reply extends TSchema, Admitted, Parsed> {
  readonly summary: string
  /** Without one the request's body is not read. */
  readonly body?: Body
  /** An empty body counts as an empty object. */
  readonly bodyOptional?: boolean
  /** Checks and converts a body by hand; the schema is then only for the document. Returns a promise for a body that takes more than one turn. */
  readonly parse?: (value: unknown) => Parsed | Promise<Parsed>
  /**
   * Reads a body of the usual form without making JSON of it. Null leaves the body to `parse`; any other result is what `parse` would give. It may
   * point into the bytes, which are valid until `handle` returns: `handle` copies what it keeps before it waits for anything.
   */
  readonly scan?: (bytes: Buffer) => Parsed | null
  /** Strings of long bodies that `parse` takes as a LongString. Default: none. */
  readonly longStringOf?: LongStringOf
  /** Parameters that `admit` takes from the query, for the document. */
  readonly query?: OperationDocument['query']
  readonly reply: Reply
  /** Writes the same JSON as the schema's serialiser, where a template is quicker. Default: that serialiser. */
  readonly stringify?: (reply: Static<Reply>) => string
  /** Default application/json. */
  readonly replyType?: string
  /** Default 200. */
  readonly status?: number
  /** Codes or kinds a caller must expect, for the document. */
  readonly errors: readonly string[]
  /** Needed with a body. */
  readonly bodyLimitBytes?: number
  /**
   * Looks at the headers before anything is read, and takes from them what `handle` needs: caller, parameters, query. Answers a
   * refused request itself and returns null, or throws.
   */
  admit(head: RequestHead, exchange: Exchange): Admitted | null
  /** Sends one `answer`, at once or later. An error of the handler is answered as well. */
  handle(call: EndpointCall<Admitted, Parsed>, answer: EndpointAnswer<Static<Reply>>): void
}

/** Where the answer of a request goes. */
export interface EndpointAnswer<Reply> {
  /** @param reply the reply, or its finished text in bytes that own their memory: it is freed when they are sent */
  answered(reply: Reply | Uint8Array<ArrayBuffer>): void
  refused(error: unknown): void
}

/** Answers when the promise settles. */
export function answerWith<Reply>(
  answer: EndpointAnswer<Reply>,
  reply: Promise<Reply | Uint8Array<ArrayBuffer>>,
): void {
  reply.then(
    (given) => answer.answered(given),
    (error: unknown) => answer.refused(error),
  )
}

/** How an endpoint serialises its answers. */
interface AnswerForm<Reply> {
  readonly status: number
  readonly replyType: string
  readonly stringify: (reply: Reply) => string
  readonly service: EndpointService
}

class AnswerOf<Reply> implements EndpointAnswer<Reply> {
  readonly #form: AnswerForm<Reply>
  readonly #exchange: Exchange

  constructor(form: AnswerForm<Reply>, exchange: Exchange) {
    this.#form = form
    this.#exchange = exchange
  }

  answered(reply: Reply | Uint8Array<ArrayBuffer>): void {
    const { status, replyType, stringify } = this.#form
    const exchange = this.#exchange
    try {
      if (!(reply instanceof Uint8Array)) return exchange.answer(status, replyType, stringify(reply))
      exchange.onEnd(() => freeMemory(reply))
      exchange.answer(status, replyType, reply)
    } catch (error) {
      this.refused(error)
    }
  }

  refused(error: unknown): void {
    this.#form.service.fail(this.#exchange, error)
  }
}

/** How an endpoint handles bodies, the same for all its requests. */
interface Awaiting<Admitted> {
  read(exchange: Exchange, admitted: Admitted, bytes: Buffer, isOwn: boolean): void
  refuse(exchange: Exchange, refusal: EndpointRefusal): void
  readonly tooLarge: string
}

/** A request whose body is on its way. */
class AwaitedBody<Admitted> implements BodyReaders {
  readonly #awaiting: Awaiting<Admitted>
  readonly #exchange: Exchange
  readonly #admitted: Admitted

  constructor(awaiting: Awaiting<Admitted>, exchange: Exchange, admitted: Admitted) {
    this.#awaiting = awaiting
    this.#exchange = exchange
    this.#admitted = admitted
  }

  whole(bytes: Buffer, isOwn: boolean): void {
    this.#awaiting.read(this.#exchange, this.#admitted, bytes, isOwn)
  }

  tooLarge(): void {
    this.#awaiting.refuse(this.#exchange, { reason: 'bodyTooLarge', message: this.#awaiting.tooLarge })
  }

  timedOut(why: TimeOut): void {
    this.#awaiting.refuse(this.#exchange, { reason: 'bodyTimedOut', message: TIME_OUT_MESSAGES[why] })
  }
}

const JSON_TYPE = 'application/json'

const noLongString: LongStringOf = () => null

export function endpoint<
  Reply extends TSchema,
  Admitted,
  Body extends TSchema | undefined = undefined,
  Parsed = BodyOf<Body>,
>(service: EndpointService, options: EndpointOptions<Body, Reply, Admitted, Parsed>): Endpoint {
  const { body: bodySchema, bodyOptional = false, bodyLimitBytes = 0, status = 200, replyType = JSON_TYPE } = options
  if (bodySchema && bodyLimitBytes <= 0) throw new Error(`${options.summary}: a body needs its bodyLimitBytes`)
  const bodyCheck = bodySchema && !options.parse ? schemaCheck(bodySchema) : null
  const stringify = options.stringify ?? serializer(options.reply)
  const longStringOf = options.longStringOf ?? noLongString

  const form: AnswerForm<Static<Reply>> = { status, replyType, stringify, service }

  const run = (exchange: Exchange, admitted: Admitted, body: Parsed): void => {
    const answer = new AnswerOf(form, exchange)
    try {
      options.handle({ admitted, body, exchange }, answer)
    } catch (error) {
      answer.refused(error)
    }
  }

  const refuseUnread = (exchange: Exchange, error: unknown): void => {
    if (error instanceof JsonBoundError) {
      return service.refuse(exchange, { reason: 'bodyInvalid', message: error.message })
    }
    if (!(error instanceof SyntaxError)) return service.fail(exchange, error)
    service.refuse(exchange, { reason: 'bodyMalformed', message: 'the body is not valid JSON in UTF-8' })
  }

  const read = (exchange: Exchange, admitted: Admitted, bytes: Buffer, isOwn: boolean): void => {
    if (bytes.byteLength === 0) {
      if (bodyOptional) return check(exchange, admitted, {})
      return service.refuse(exchange, { reason: 'bodyMalformed', message: 'the body is empty, and must be JSON' })
    }
    const scanned = options.scan && bytes.byteLength <= SHORT_BODY_BYTES ? options.scan(bytes) : null
    if (scanned !== null) return run(exchange, admitted, scanned)
    try {
      const whole = readJsonBody(bytes, isOwn, longStringOf, () => exchange.ended)
      if (!(whole instanceof Promise)) return check(exchange, admitted, whole.value)
      whole.then(
        (whole) => whole && check(exchange, admitted, whole.value),
        (error: unknown) => refuseUnread(exchange, error),
      )
    } catch (error) {
      refuseUnread(exchange, error)
    }
  }

  const check = (exchange: Exchange, admitted: Admitted, value: unknown): void => {
    if (bodySchema && bodyCheck && !bodyCheck.accepts(value)) {
      const message = describeProblem(bodyCheck.errors(value), bodySchema)
      return service.refuse(exchange, { reason: 'bodyInvalid', message })
    }
    try {
      const body = options.parse ? options.parse(value) : (value as Parsed) // just checked against the schema of that type
      if (!(body instanceof Promise)) return run(exchange, admitted, body)
      body.then(
        (body: Parsed) => run(exchange, admitted, body),
        (error: unknown) => service.fail(exchange, error),
      )
    } catch (error) {
      service.fail(exchange, error)
    }
  }

  const awaiting: Awaiting<Admitted> = {
    read,
    refuse: (exchange, refusal) => service.refuse(exchange, refusal),
    tooLarge: `the body must not exceed ${bodyLimitBytes} bytes`,
  }

  return {
    document: documentOf(service, options, status, replyType),
    begin(head, exchange) {
      let admitted: Admitted | null
      try {
        admitted = options.admit(head, exchange)
      } catch (error) {
        return service.fail(exchange, error)
      }
      if (admitted === null) return
      if (!bodySchema) return run(exchange, admitted, undefined as Parsed) // without a body schema, Parsed is undefined
      if (!service.anyMediaType && mediaTypeOf(head.header('content-type')) !== JSON_TYPE) {
        return service.refuse(exchange, { reason: 'mediaType', message: `the content type must be ${JSON_TYPE}` })
      }
      if (!isIdentity(head.header('content-encoding'))) {
        return service.refuse(exchange, {
          reason: 'contentEncoding',
          message: 'the body must come without a content encoding',
        })
      }
      gatherBody(exchange, bodyLimitBytes, new AwaitedBody(awaiting, exchange, admitted))
    },
  }
}

function documentOf<Body extends TSchema | undefined, Reply extends TSchema, Admitted, Parsed>(
  service: EndpointService,
  options: EndpointOptions<Body, Reply, Admitted, Parsed>,
  status: number,
  replyType: string,
): OperationDocument {
  const { summary, query, body, bodyOptional = false } = options
  return {
    summary,
    ...(query && { query }),
    ...(body && { requestBody: { mediaTypes: [JSON_TYPE], schema: body, optional: bodyOptional } }),
    replies: [
      { status, description: 'success', mediaType: replyType, schema: options.reply },
      {
        status: 'default',
        description: `refused: ${options.errors.join(', ')}`,
        mediaType: JSON_TYPE,
        schema: service.errorSchema,
      },
    ],
  }
}

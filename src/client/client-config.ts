/**
 * What a client says about itself, and what it adds to each record.
 *
 * The headers of a record name its producer. By them and the `message_id` a consumer recognizes a repeated record, as the broker suppresses
 * none. A header of the record wins over a default one of the same name, and neither can name another producer.
 */
import { HEADERS_RULE, NAME_RULE, isName, isText } from '../broker/names.ts'
import { RECORD_DURABILITIES } from '../broker/durability.ts'
import type { RecordDurability } from '../broker/durability.ts'
import { isInstance, isObject } from '../plain-objects.ts'
import { invalidConfig } from './sdk-error.ts'

export type Headers = Readonly<Record<string, string>>

/** W3C Trace Context: the headers of the same names. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

export interface ClientSettings {
  /** Id of the producer of these records; not blank. */
  readonly producerId: string
  /** Counts the starts of the producer: an unsigned integer that grows from one start to the next. */
  readonly epoch?: number | null
  /** For records that name no durability; null: the stream decides. */
  readonly defaultDurability?: RecordDurability | null
  /** Added to every record. */
  readonly defaultHeaders?: Headers | null
  /** Added to every record that does not bring its own. */
  readonly traceContext?: TraceContext | null
}

export const PRODUCER_ID_HEADER = 'x-producer-id'
export const PRODUCER_EPOCH_HEADER = 'x-producer-epoch'

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const DURABILITIES: readonly unknown[] = RECORD_DURABILITIES

/** A checked copy of the settings: later changes of the caller's object have no effect. */
export class ClientConfig implements ClientSettings {
  readonly producerId: string
  readonly epoch: number | null
  readonly defaultDurability: RecordDurability | null
  readonly defaultHeaders: Headers
  readonly traceContext: TraceContext | null

  /** @throws SdkError InvalidConfig that names the first bad setting */
  constructor(settings: ClientSettings) {
    if (!isObject(settings)) throw invalidConfig('the settings of a client must be an object')
    const { producerId, epoch, defaultDurability, defaultHeaders, traceContext } = settings
    if (typeof producerId !== 'string' || !isName(producerId)) throw invalidConfig(`producerId ${NAME_RULE}`)
    this.producerId = producerId
    this.epoch = epochOf(epoch ?? null)
    this.defaultDurability = durabilityOf(defaultDurability ?? null)
    this.defaultHeaders = headersOf(defaultHeaders ?? {})
    this.traceContext = traceContextOf(traceContext ?? null)
  }

  /** @param own headers of the record, checked */
  headersOf(own: Headers | null): Headers {
    const { producerId, epoch, defaultHeaders, traceContext } = this
    return {
      ...defaultHeaders,
      ...traceContext,
      ...own,
      [PRODUCER_ID_HEADER]: producerId,
      ...(epoch !== null && { [PRODUCER_EPOCH_HEADER]: String(epoch) }),
    }
  }
}

function epochOf(epoch: number | null): number | null {
  if (epoch === null || (Number.isSafeInteger(epoch) && epoch >= 0)) return epoch
  throw invalidConfig(`epoch must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`)
}

function durabilityOf(durability: RecordDurability | null): RecordDurability | null {
  if (durability === null || DURABILITIES.includes(durability)) return durability
  throw invalidConfig(`defaultDurability must be one of ${RECORD_DURABILITIES.join(', ')}`)
}

function headersOf(headers: Headers): Headers {
  if (!isObject(headers) || isInstance(headers)) throw invalidConfig(`defaultHeaders ${HEADERS_RULE}`)
  for (const [name, value] of Object.entries(headers)) {
    if (!isName(name)) throw invalidConfig(`the name of a default header ${NAME_RULE}`)
    if (typeof value !== 'string' || !isText(value)) {
      throw invalidConfig('the value of a default header must be a string of well-formed Unicode')
    }
  }
  return { ...headers }
}

function traceContextOf(context: TraceContext | null): TraceContext | null {
  if (context === null) return null
  const { traceparent, tracestate } = context
  if (!TRACEPARENT.test(traceparent))
    throw invalidConfig('traceContext.traceparent must have the form of W3C Trace Context')
  if (tracestate === undefined) return { traceparent }
  if (!isName(tracestate)) throw invalidConfig(`traceContext.tracestate ${NAME_RULE}`)
  return { traceparent, tracestate }
}

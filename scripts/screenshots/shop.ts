/** Log records and traces of a small shop with five services, as its owner would find them: the same ones from the same seed. */
import { mulberry32 } from '../../test/support/sim-files.ts'

interface Operation {
  readonly service: string
  readonly name: string
  /** 2: server, 3: client, 1: internal */
  readonly kind: number
  readonly meanMs: number
  readonly attributes: Readonly<Record<string, string | number>>
  readonly calls: readonly Operation[]
  /** What it writes while it runs. */
  readonly says: readonly Line[]
}

interface Line {
  readonly severity: number
  readonly text: string
  /** Share of its records that are written. */
  readonly share: number
}

const INFO = 9
const WARN = 13
const ERROR = 17
const DEBUG = 5

const operation = (
  service: string,
  name: string,
  kind: number,
  meanMs: number,
  attributes: Operation['attributes'],
  calls: readonly Operation[] = [],
  says: readonly Line[] = [],
): Operation => ({ service, name, kind, meanMs, attributes, calls, says })

const line = (severity: number, text: string, share = 1): Line => ({ severity, text, share })

const sql = (service: string, text: string, table: string, meanMs: number): Operation =>
  operation(service, text, 3, meanMs, { 'db.system': 'postgresql', 'db.collection.name': table })

const CHECKOUT = operation(
  'web',
  'POST /cart/checkout',
  2,
  180,
  { 'http.request.method': 'POST', 'http.route': '/cart/checkout', 'client.address': '203.0.113.24' },
  [
    operation(
      'checkout',
      'PlaceOrder',
      2,
      150,
      { 'rpc.system': 'grpc', 'rpc.method': 'PlaceOrder' },
      [
        sql('checkout', 'SELECT carts', 'carts', 6),
        operation(
          'inventory',
          'Reserve',
          2,
          32,
          { 'rpc.system': 'grpc', 'rpc.method': 'Reserve' },
          [sql('inventory', 'UPDATE stock', 'stock', 14)],
          [
            line(DEBUG, 'reserved {items} items of order {order}'),
            line(WARN, 'stock of item {item} is low: {items} left', 0.25),
          ],
        ),
        operation(
          'payments',
          'Charge',
          2,
          74,
          { 'rpc.system': 'grpc', 'rpc.method': 'Charge' },
          [
            operation('payments', 'POST api.cards.example', 3, 58, {
              'http.request.method': 'POST',
              'server.address': 'api.cards.example',
            }),
            sql('payments', 'INSERT charges', 'charges', 8),
          ],
          [line(INFO, 'charged {total} EUR for order {order}')],
        ),
        operation(
          'mail',
          'SendReceipt',
          5,
          18,
          { 'messaging.system': 'trilog', 'messaging.destination.name': 'receipts' },
          [],
          [line(INFO, 'receipt of order {order} queued')],
        ),
      ],
      [line(INFO, 'order {order} placed: {items} items, {total} EUR')],
    ),
  ],
  [line(INFO, 'POST /cart/checkout 200 in {ms} ms')],
)

const BROWSE = operation(
  'web',
  'GET /products/:id',
  2,
  24,
  { 'http.request.method': 'GET', 'http.route': '/products/:id', 'client.address': '198.51.100.7' },
  [
    operation('inventory', 'Look', 2, 12, { 'rpc.system': 'grpc', 'rpc.method': 'Look' }, [
      sql('inventory', 'SELECT stock', 'stock', 4),
    ]),
  ],
  [line(INFO, 'GET /products/{item} 200 in {ms} ms')],
)

type Random = () => number

export class Shop {
  readonly #random: Random
  readonly #tenant: string
  readonly #logs = new Map<string, object[]>()
  readonly #spans = new Map<string, object[]>()
  #order = 10_400

  constructor(seed: number, tenant: string) {
    this.#random = mulberry32(seed)
    this.#tenant = tenant
  }

  /** One visit to the shop that began then. @returns its trace id */
  visit(startMs: number, kind: 'checkout' | 'browse' | 'refused' = this.#kind()): string {
    const traceId = this.#hex(32)
    const words = {
      order: String(++this.#order),
      items: String(2 + Math.floor(this.#random() * 5)),
      item: String(100 + Math.floor(this.#random() * 40)),
      total: (9 + this.#random() * 190).toFixed(2),
    }
    this.#run(kind === 'browse' ? BROWSE : CHECKOUT, { traceId, words, isRefused: kind === 'refused' }, '', startMs)
    return traceId
  }

  /** What was made since it was last taken, in requests of at most 500 records. */
  take(): readonly { readonly path: string; readonly body: string }[] {
    const requests: { path: string; body: string }[] = []
    for (const [service, records] of this.#logs) {
      for (const logRecords of batches(records))
        requests.push({
          path: '/v1/otlp/logs',
          body: JSON.stringify({
            resourceLogs: [
              {
                resource: this.#resource(service),
                scopeLogs: [{ scope: { name: `shop.${service}`, version: '2.4.1' }, logRecords }],
              },
            ],
          }),
        })
    }
    for (const [service, records] of this.#spans) {
      for (const spans of batches(records))
        requests.push({
          path: '/v1/otlp/traces',
          body: JSON.stringify({
            resourceSpans: [
              { resource: this.#resource(service), scopeSpans: [{ scope: { name: 'instrumentation' }, spans }] },
            ],
          }),
        })
    }
    this.#logs.clear()
    this.#spans.clear()
    return requests
  }

  #kind(): 'checkout' | 'browse' | 'refused' {
    const at = this.#random()
    return at < 0.06 ? 'refused' : at < 0.45 ? 'checkout' : 'browse'
  }

  #run(
    { service, name, kind, meanMs, attributes, calls, says }: Operation,
    visit: { readonly traceId: string; readonly words: Readonly<Record<string, string>>; readonly isRefused: boolean },
    parentSpanId: string,
    startMs: number,
  ): { readonly endMs: number; readonly failed: boolean } {
    const { traceId, words, isRefused } = visit
    const spanId = this.#hex(16)
    let nowMs = startMs + meanMs * (0.02 + 0.04 * this.#random())
    let failed = isRefused && name === 'POST api.cards.example'
    for (const call of calls) {
      if (failed) break
      const called = this.#run(call, visit, spanId, nowMs)
      failed ||= called.failed
      nowMs = called.endMs + meanMs * 0.02 * this.#random()
    }
    const endMs = calls.length === 0 ? startMs + meanMs * (0.5 + this.#random() ** 3 * 2.5) : nowMs + meanMs * 0.03
    const isError = failed
    add(this.#spans, service, {
      traceId,
      spanId,
      ...(parentSpanId !== '' && { parentSpanId }),
      name,
      kind,
      startTimeUnixNano: nanos(startMs),
      endTimeUnixNano: nanos(endMs),
      attributes: pairs({
        ...attributes,
        ...(kind === 2 && service === 'web' && { 'http.response.status_code': isError ? 402 : 200 }),
      }),
      status: isError ? { code: 2, message: 'card_declined' } : {},
      ...(isError &&
        name === 'POST api.cards.example' && {
          events: [
            {
              timeUnixNano: nanos(endMs - 1),
              name: 'exception',
              attributes: pairs({
                'exception.type': 'CardDeclined',
                'exception.message': 'the issuer refused the card',
              }),
            },
          ],
        }),
    })
    const record = (severity: number, text: string, more: Readonly<Record<string, string | number>> = {}): void =>
      add(this.#logs, service, {
        timeUnixNano: nanos(endMs - 0.4),
        severityNumber: severity,
        severityText: SEVERITIES[severity],
        body: { stringValue: text },
        attributes: pairs({ 'order.id': words['order']!, region: this.#region(), ...more }),
        traceId,
        spanId,
      })
    const filled = (text: string): string =>
      text.replace(/\{(\w+)\}/g, (_, word: string) =>
        word === 'ms' ? String(Math.round(endMs - startMs)) : words[word]!,
      )
    if (isError && calls.length > 0) {
      const text =
        service === 'payments'
          ? `charge of order {order} refused: card_declined`
          : service === 'web'
            ? `POST /cart/checkout 402 in {ms} ms`
            : `order {order} was not placed: the payment was refused`
      record(service === 'web' ? WARN : ERROR, filled(text), { 'error.type': 'card_declined' })
    } else {
      for (const { severity, text, share } of says) if (this.#random() < share) record(severity, filled(text))
    }
    return { endMs, failed }
  }

  #region(): string {
    return ['eu-central', 'eu-north', 'us-east'][Math.floor(this.#random() * 3)]!
  }

  #hex(digits: number): string {
    let text = ''
    while (text.length < digits) text += Math.floor(this.#random() * 16).toString(16)
    return text
  }

  #resource(service: string): object {
    return {
      attributes: pairs({
        tenant_id: this.#tenant,
        'service.name': service,
        'service.version': '2.4.1',
        'host.name': `${service}-1`,
      }),
    }
  }
}

const SEVERITIES: Readonly<Record<number, string>> = {
  [DEBUG]: 'DEBUG',
  [INFO]: 'INFO',
  [WARN]: 'WARN',
  [ERROR]: 'ERROR',
}

/** Exact: milliseconds of these days times a million are beyond what a number holds. */
const nanos = (ms: number): string => String(BigInt(Math.round(ms * 1000)) * 1000n)

const pairs = (values: Readonly<Record<string, string | number>>): readonly object[] =>
  Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value },
  }))

function add(all: Map<string, object[]>, service: string, record: object): void {
  const records = all.get(service)
  if (records) records.push(record)
  else all.set(service, [record])
}

const BATCH = 500

function* batches(records: readonly object[]): Generator<readonly object[]> {
  for (let at = 0; at < records.length; at += BATCH) yield records.slice(at, at + BATCH)
}

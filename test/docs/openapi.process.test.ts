/**
 * The OpenAPI documents follow the rules that generators need. `test/package/typed-clients.process.test.ts` runs such tools; these tests check
 * their most important rules.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { BrokerServer } from '../support/broker.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import type { RunningService } from '../support/process.ts'

interface Content {
  readonly schema?: object
  readonly example?: unknown
}
interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly security: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required?: boolean }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, Content>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>
}
interface Document {
  readonly openapi: string
  readonly info: Readonly<Record<string, unknown>>
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>
    readonly securitySchemes: Readonly<Record<string, object>>
  }
}

const SERVICES = {
  'the log store': {
    start: () => LogStoreServer.start(),
    path: '/openapi.json',
    operations: ['queryRecords', 'ingestLogs', 'ingestTraces', 'ingestJsonLogs', 'getReadiness'],
    schemas: ['Record', 'Refusal', 'QueryRecordsRequest', 'QueryRecordsReply'],
  },
  'the object store': {
    start: () => ObjectStoreServer.start(),
    path: '/v1/openapi.json',
    operations: ['putObject', 'getObject', 'listObjectsV2', 'createBucket', 'getReadiness'],
    schemas: ['Refusal', 'StoreObjectRequest'],
  },
  'the broker': {
    start: () => BrokerServer.start(),
    path: '/openapi.json',
    operations: ['publishRecord', 'claimRecords', 'ackDelivery', 'replayRecords', 'createStream', 'getReadiness'],
    schemas: ['Stream', 'Delivery', 'Record', 'Refusal', 'PublishRecordRequest', 'PublishRecordReply'],
  },
}

for (const [name, { start, path, operations: expected, schemas }] of Object.entries(SERVICES)) {
  describe(`the OpenAPI document of ${name}`, () => {
    let server: RunningService
    let document: Document
    before(async () => {
      server = await start()
      document = (await (await fetch(`${server.url}${path}`)).json()) as Document // checked below
    })
    after(() => server.stop())

    const operations = (): Operation[] => Object.values(document.paths).flatMap((methods) => Object.values(methods))
    const referred = (): string[] =>
      [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, each]) => each!)

    /** The value with each `$ref` replaced by its component. */
    const resolved = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(resolved)
      if (typeof value !== 'object' || value === null) return value
      if ('$ref' in value) return resolved(document.components.schemas[String(value.$ref).split('/').at(-1)!])
      return Object.fromEntries(Object.entries(value).map(([key, inside]) => [key, resolved(inside)]))
    }

    it('says what it is, where it is served and under which licence', () => {
      assert.equal(document.openapi, '3.1.0')
      for (const name of ['title', 'version', 'description', 'license']) assert.ok(document.info[name], name)
      assert.equal(document.servers.length, 2)
    })

    it('names every operation once, in the words of the specification', () => {
      const ids = operations().map(({ operationId }) => operationId)
      assert.equal(new Set(ids).size, ids.length)
      for (const id of ids) assert.match(id, /^[a-z][A-Za-z0-9]*$/)
      for (const id of expected) assert.ok(ids.includes(id), id)
    })

    it('has tags that are described, and all of them in use', () => {
      const used = new Set(operations().flatMap(({ tags }) => tags))
      assert.deepEqual([...used].sort(), document.tags.map(({ name }) => name).sort())
      for (const { description } of document.tags) assert.ok(description)
    })

    it('has paths without query and fragment, whose parameters are declared', () => {
      for (const [path, methods] of Object.entries(document.paths)) {
        assert.doesNotMatch(path, /[?#:]/)
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
        for (const { parameters = [] } of Object.values(methods)) {
          const declared = parameters.filter((each) => each.in === 'path')
          assert.deepEqual(
            declared.map(({ name }) => name),
            named,
            path,
          )
          assert.ok(declared.every(({ required }) => required))
          const all = parameters.map((each) => `${each.in} ${each.name}`)
          assert.equal(new Set(all).size, all.length, path)
        }
      }
    })

    it('says of every operation which credentials it asks for, of those there are', () => {
      for (const { security, operationId } of operations()) {
        assert.ok(Array.isArray(security), operationId)
        for (const scheme of security.flatMap((each) => Object.keys(each))) {
          assert.ok(document.components.securitySchemes[scheme], scheme)
        }
      }
    })

    it('says of every operation how it answers, refusals included', () => {
      for (const { responses, operationId } of operations()) {
        const statuses = Object.keys(responses)
        assert.ok(
          statuses.some((status) => /^[12]\d\d$/.test(status)),
          operationId,
        )
      }
    })

    it('has a component for each thing that deserves a name, and uses each', () => {
      const names = Object.keys(document.components.schemas)
      for (const each of schemas) assert.ok(names.includes(each), each)
      assert.deepEqual(names.toSorted(), [...new Set(referred())].sort())
    })

    it('shows examples that are as their schemas say', () => {
      let count = 0
      for (const { operationId, requestBody, responses } of operations()) {
        const contents = [requestBody, ...Object.values(responses)].flatMap((each) =>
          Object.values(each?.content ?? {}),
        )
        for (const { schema, example } of contents) {
          if (example === undefined) continue
          assert.ok(schema, operationId)
          const validator = Compile(resolved(schema) as object)
          assert.ok(validator.Check(example), `${operationId}: ${JSON.stringify(validator.Errors(example))}`)
          count++
        }
      }
      if (name !== 'the object store') assert.ok(count >= 4, 'its bodies are JSON')
    })

    it('keeps nothing of what made its schemas', () => {
      assert.doesNotMatch(JSON.stringify(document), /"~|"unsafe"/)
    })
  })
}

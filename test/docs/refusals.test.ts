import assert from 'node:assert/strict'
import { test } from 'node:test'
import { status as grpcStatus } from '@grpc/grpc-js'
import { REFUSALS as BROKER_REFUSALS } from '../../src/broker/refusals.ts'
import { REFUSALS as LOG_STORE_REFUSALS } from '../../src/logstore/refusals.ts'
import { REFUSALS as OBJECT_STORE_REFUSALS } from '../../src/objectstore/refusals.ts'
import { codeOf, handbook, tableOf } from './markdown.ts'

const pages = handbook()

const yesOrNo = (retryable: boolean): string => (retryable ? 'yes' : 'no')

test("the table of the log store's refusals is that of the code: kinds, statuses, what is retryable", () => {
  const shown = tableOf(pages, 'Refusals of the log store').map(([kind, status, grpc, retryable]) => [
    codeOf(kind),
    status,
    grpc,
    retryable,
  ])
  assert.deepEqual(
    shown,
    Object.entries(LOG_STORE_REFUSALS).map(([kind, { status, grpc, retryable }]) => [
      kind,
      String(status),
      grpcStatus[grpc],
      yesOrNo(retryable),
    ]),
  )
})

test("the table of the broker's refusals is that of the code: codes, statuses, what is retryable", () => {
  assert.deepEqual(
    tableOf(pages, 'Refusals of the broker').map(([code, status, retryable]) => [codeOf(code), status, retryable]),
    Object.entries(BROKER_REFUSALS).map(([code, { status, retryable }]) => [code, String(status), yesOrNo(retryable)]),
  )
})

test("the table of the object store's refusals is that of the code: codes, statuses, categories, what is retryable", () => {
  assert.deepEqual(
    tableOf(pages, 'Refusals of the object store').map(([code, status, category, retryable]) => [
      codeOf(code),
      status,
      codeOf(category),
      retryable,
    ]),
    Object.entries(OBJECT_STORE_REFUSALS).map(([code, { status, category, retryable }]) => [
      code,
      String(status),
      category,
      yesOrNo(retryable),
    ]),
  )
})

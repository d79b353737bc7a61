/** The statement of docs/broker.md that protects a database from a worker that lost its lease, run by a real database. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { DatabaseSync } from 'node:sqlite'
import { openEmbeddedBroker } from '../../src/client/index.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { blocksOf, document } from './markdown.ts'

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

it('a worker that lost its lease changes no row, whoever writes first', async (context) => {
  const broker = await openEmbeddedBroker({ dataDirectory: temporaryDirectory(), logger: SILENT })
  context.after(() => broker.close())
  const client = broker.client({ producerId: 'bank' })
  await client.createStream('payments')
  await client.publish('payments', { message_id: 'p-1', payload: '10' })
  const claimFor = async (lease_timeout_millis: number) => {
    const { deliveries } = await client.claimQueue('payments', 'workers', { lease_timeout_millis, wait_millis: 30_000 })
    return deliveries[0]!
  }
  const late = await claimFor(1)
  const next = await claimFor(60_000) // answered when the first lease has expired
  assert.deepEqual([late.offset, next.offset], [0, 0])

  const [statement] = blocksOf(document('docs/broker.md'), 'fencing')
  const write = (database: DatabaseSync, balance: number, fencing_token: number): number =>
    Number(database.prepare(statement!.text).run({ id: 'ada', balance, fencing_token }).changes)
  const opened = (): DatabaseSync => {
    const database = new DatabaseSync(':memory:')
    database.exec(`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER, fencing_token INTEGER);
      INSERT INTO accounts VALUES ('ada', 0, 0)`)
    return database
  }
  const balanceOf = (database: DatabaseSync): unknown =>
    database.prepare('SELECT balance FROM accounts').get()?.['balance']

  const behind = opened()
  assert.equal(write(behind, 10, next.fencing_token), 1)
  assert.equal(write(behind, 99, late.fencing_token), 0, 'the late worker is told')
  assert.equal(balanceOf(behind), 10)
  assert.equal(write(behind, 10, next.fencing_token), 1, 'the one that has the lease may write again')

  const before = opened()
  assert.equal(write(before, 99, late.fencing_token), 1)
  assert.equal(write(before, 10, next.fencing_token), 1)
  assert.equal(balanceOf(before), 10)
})

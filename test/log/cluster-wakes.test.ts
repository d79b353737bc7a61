import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Log } from '../../src/log/log.ts'
import { LogShared } from '../../src/log/log-shared.ts'
import { World, appended, openWriter } from '../support/log-harness.ts'

const PAYLOAD = Buffer.alloc(100, 7)

/** The log of a leader. The test steps its journal, and acts as its lane. */
async function leading() {
  const world = new World({ seed: 1 })
  const cluster = { ack: 'cluster', logId: 7, keepUpTo: null, nowMs: () => 0, onSetAside: () => {} } as const
  const log: Log = await world.open({ cluster })
  log.cluster!.lead(2)
  const rig = { world, log, writer: openWriter(log), shared: LogShared.attach(log.cluster!.handle.shared), wakes: 0 }
  appended(rig.writer, PAYLOAD)
  world.step() // opens a segment, of which the journal tells main
  rig.shared.publishConfirmed(log.written)
  log.noteProgress()
  log.onProgress(() => (rig.wakes += 1))
  return rig
}

describe('main of a leader', () => {
  it('is not woken by a sync of what the cluster has not confirmed', async () => {
    const rig = await leading()
    const { end } = appended(rig.writer, PAYLOAD)
    rig.world.step()
    assert.deepEqual([rig.wakes, rig.log.written], [0, end])
    rig.shared.publishConfirmed(end)
    assert.equal(rig.log.committed, end)
  })

  it('is woken by the sync that commits what is confirmed already', async () => {
    const rig = await leading()
    const { end } = appended(rig.writer, PAYLOAD)
    appended(rig.writer, PAYLOAD)
    rig.shared.publishConfirmed(end)
    rig.world.step()
    assert.deepEqual([rig.wakes, rig.log.committed], [1, end])
  })

  it('is woken by each sync when it leads no more', async () => {
    const rig = await leading()
    appended(rig.writer, PAYLOAD)
    rig.log.cluster!.follow()
    rig.world.step()
    assert.equal(rig.wakes, 1)
  })
})

/**
 * This release opens the data of older ones, and gives the answers that they gave, except for members that answers have got since. If a fixture
 * fails here, an upgrade would lose data: change the code to read it, and never write the fixture anew.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { describe, it } from 'node:test'
import * as brokerFrames from '../src/broker/frames/frame-types.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { readFormat } from '../src/log/format.ts'
import { replaySegment } from '../src/log/read.ts'
import { segmentBaseOf } from '../src/log/segment-format.ts'
import {
  FRAME_CHANGE,
  FRAME_DELETED,
  FRAME_EXTENT,
  FRAME_OBJECT,
  FRAME_PART,
} from '../src/objectstore/engine/frames.ts'
import { temporaryDirectory } from './support/directories.ts'
import { FIXTURES, STORED_SERVICES, readFixture, see, startStored, unpackDirectory } from './support/stored-fixture.ts'
import type { StoredService } from './support/stored-fixture.ts'

const BYTES_MAX = 60_000
/** Members that answers have got since the fixtures were made. */
const ADDED_SINCE = [/"stream_created_at_ms":\d+,/]
const NAMES = readdirSync(FIXTURES).map((file) => file.replace(/\.json$/, ''))
const serviceOf = (name: string): StoredService => STORED_SERVICES.find((service) => name.startsWith(`${service}-`))!

function unpacked(name: string): string {
  const directory = `${temporaryDirectory()}/data`
  unpackDirectory(readFixture(name), directory)
  return directory
}

/** Types of the frames in all segments. */
function frameTypesIn(directory: string): number[] {
  const logId = readFormat(nodeFiles, directory, 'segments')!
  const types = new Set<number>()
  for (const name of readdirSync(`${directory}/segments`)) {
    const segment = { base: segmentBaseOf(name)!, recordsPath: `${directory}/segments/${name}/records.log` }
    const onFrame = ({ type }: { readonly type: number }): void => void types.add(type)
    replaySegment(nodeFiles, segment, { logId, onFrame, onDamage: () => assert.fail() })
  }
  return [...types].sort((a, b) => a - b)
}

describe('what an older release stored', { concurrency: true }, () => {
  for (const name of NAMES) {
    it(`is found again: ${name}`, async () => {
      const { looks } = readFixture(name)
      assert.ok(looks.length > 5)
      const server = await startStored(serviceOf(name), unpacked(name))
      for (const { status, answer, ...look } of looks) {
        const seen = await see(server.url, look, ADDED_SINCE)
        assert.deepEqual([seen.status, seen.answer], [status, answer], `${look.method} ${look.path}`)
      }
      assert.equal(
        (await fetch(`${server.url}/readyz`).then((reply) => reply.json() as Promise<{ status: string }>)).status,
        'ok',
      )
      await server.stop()
    })
  }
})

describe('the fixtures', () => {
  it('are of every service, and small', () => {
    assert.deepEqual([...new Set(NAMES.map(serviceOf))].sort(), [...STORED_SERVICES].sort())
    const bytes = NAMES.reduce((sum, name) => sum + statSync(`${FIXTURES}/${name}.json`).size, 0)
    assert.ok(bytes < BYTES_MAX, `${bytes} bytes`)
  })

  it('hold every kind of frame of the object store and of the broker', () => {
    const ofObjectStore = [FRAME_CHANGE, FRAME_OBJECT, FRAME_DELETED, FRAME_EXTENT, FRAME_PART]
    assert.deepEqual(frameTypesIn(unpacked('objectstore-0.1.0')), ofObjectStore)
    const ofBroker = Object.values(brokerFrames).toSorted((a, b) => a - b)
    assert.deepEqual(frameTypesIn(unpacked('broker-0.1.0')), ofBroker)
  })

  it('hold a sealed segment of the log store with its index, and an active one', () => {
    const directory = `${unpacked('logstore-0.1.0')}/bundles`
    const sealed = readdirSync(directory).toSorted()
    assert.deepEqual(
      sealed.map((segment) => existsSync(`${directory}/${segment}/index.bin`)),
      [true, false],
    )
  })
})

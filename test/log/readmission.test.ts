import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LogEnvironment } from '../../src/log/environment.ts'
import { StoreError } from '../../src/errors.ts'
import type { Log } from '../../src/log/log.ts'
import type { LogWriter } from '../../src/log/log-writer.ts'
import { withoutPauses } from '../../src/steps.ts'
import type { Pace, Step } from '../../src/steps.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import { segmentBaseOf, segmentName } from '../../src/log/segment-format.ts'
import { mulberry32 } from '../support/sim-files.ts'
import { modelRuns, testSeed } from '../support/seed.ts'
import { nextTurn } from '../support/next-turn.ts'

const REPLICAS = ['/replica-1', '/replica-2']
const OPTIONS = { replicas: REPLICAS, writeQuorum: 2, segmentBytes: 4096 }

interface Running {
  readonly world: World
  readonly log: Log
  readonly writer: LogWriter
}

async function started(
  seed = 1,
  change: (environment: LogEnvironment) => Partial<LogEnvironment> = () => ({}),
  pace: Pace = withoutPauses,
): Promise<Running> {
  const world = new World({ seed })
  const environment = { ...world.environment, ...change(world.environment) }
  const log = await world.open({ ...OPTIONS, environment, pace })
  return { world, log, writer: openWriter(log) }
}

/** Writes frames until there are some more segments. */
function fill({ world, writer }: Running, from: number, to: number): void {
  for (let n = from; n < to; n += 1) {
    appended(writer, payloadOf(n, 700))
    world.step()
  }
}

/** Lets enough time pass for another try, and for all work in the background. */
async function later({ world, writer }: Running): Promise<void> {
  world.nowMs += 20 * 60_000
  for (let look = 0; look < 3; look += 1) {
    for (const lane of world.lanes) lane?.idle()
    for (const tick of world.timers.slice()) tick()
    writer.poll()
    world.step()
    await nextTurn()
  }
}

/** The disk of a directory is taken out, and the log notices. */
function takeAway({ world }: Running, directory: string): void {
  world.files.rename(directory, `${directory}-away`)
  world.files.syncDirectory('/')
  world.nowMs += 1000
  for (const lane of world.lanes) lane?.idle()
}

const filesOf = ({ world, log }: Running, directory: string): Buffer[] =>
  log.segments.map(({ recordsPath }) => world.files.contentOf(recordsPath.replace('/data', directory)))

describe('a replica directory that was lost and is there again', () => {
  it('is filled and taken in while the log is open, and nothing is lost', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    assert.equal(log.state.kind, 'degraded')
    fill(running, 12, 40)
    world.files.rename('/replica-2-away', '/replica-2')
    await later(running)
    assert.deepEqual([log.state.kind, log.lostReplicas], ['ok', []])
    fill(running, 40, 50)
    assert.equal(replay(log, world.files).frames.length, 50)
    await log.close()
    assert.deepEqual(filesOf(running, '/replica-2'), filesOf(running, '/data'))
  })

  it('is taken in by a restart in place that lets others have their turn, piece by piece of what is copied', async () => {
    const world = new World({ seed: 1 })
    const steps: Step[] = []
    let isOpen = false
    const pace: Pace = async (work) => {
      for (;;) {
        const step = work.next()
        if (step.done) return step.value
        if (isOpen) steps.push(step.value)
        await Promise.resolve()
      }
    }
    const log = await world.open({ ...OPTIONS, segmentBytes: 64 << 20, ringBytes: 8 << 20, pace })
    isOpen = true
    const running = { world, log, writer: openWriter(log) }
    const write = (n: number, bytes: number): void => {
      appended(running.writer, payloadOf(n, bytes))
      world.step()
    }
    write(0, 100)
    takeAway(running, '/replica-2')
    world.files.rename('/replica-2-away', '/replica-2')
    // Only the restart copies what is written after the last segment was sealed.
    log.onSealed(() => {
      for (let n = 1; n <= 5; n += 1) write(n, 2 << 20)
    })
    await later(running)
    await later(running)
    assert.deepEqual([log.state.kind, log.lostReplicas], ['ok', []])
    assert.equal(replay(log, world.files).frames.length, 6)
    const copied = steps.filter(({ phase, unit }) => /equal/.test(phase) && unit === 'bytes')
    const pieces = copied.map(
      ({ done }, i) => done - (done > (copied[i - 1]?.done ?? 0) ? (copied[i - 1]?.done ?? 0) : 0),
    )
    assert(copied.length >= 10 && Math.max(...pieces) <= 1 << 20, `copied in pieces of ${pieces.join(', ')}`)
    await log.close()
    assert.deepEqual(filesOf(running, '/replica-2'), filesOf(running, '/data'))
  })

  it('has everything alone when the others are gone', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    fill(running, 12, 30)
    world.files.rename('/replica-2-away', '/replica-2')
    await later(running)
    await log.close()
    world.end('crash')
    world.files.removeDirectory('/data')
    const again = await world.open(OPTIONS)
    assert.equal(replay(again, world.files).frames.length, 30)
  })

  it('has nothing of what was dropped meanwhile, and is whole alone, when it is taken in', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 30)
    takeAway(running, '/replica-2')
    fill(running, 30, 40)
    const begin = log.segments[3]!.base
    log.dropBefore(begin)
    world.step()
    world.files.rename('/replica-2-away', '/replica-2')
    world.files.syncDirectory('/')
    await later(running)
    assert.deepEqual([log.state.kind, log.lostReplicas], ['ok', []])
    const segmentsIn = (directory: string): readonly string[] =>
      world.files.list(`${directory}/segments`)!.filter((name) => segmentBaseOf(name) !== null)
    assert.deepEqual(segmentsIn('/replica-2'), segmentsIn('/data'))
    const { length } = replay(log, world.files).frames
    await log.close()
    world.end('crash')
    const alone = await world.open({ ...OPTIONS, directory: '/replica-2', replicas: [], writeQuorum: 1 })
    assert.deepEqual([alone.segments[0]!.base, alone.incidents], [begin, []])
    assert.equal(replay(alone, world.files).frames.length, length)
    await alone.close()
  })

  it('keeps what the primary did not drop, but lost', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 30)
    const [first] = log.segments
    await log.close()
    world.end('crash')
    world.files.rename('/replica-2', '/replica-2-away')
    for (const directory of ['/data', '/replica-1'])
      world.files.removeDirectory(`${directory}/segments/${segmentName(first!.base)}`)
    const again = await world.open(OPTIONS)
    assert.equal(again.incidents.length, 1)
    const goesOn = { world, log: again, writer: openWriter(again) }
    fill(goesOn, 30, 40)
    if (world.files.exists('/replica-2')) world.files.removeDirectory('/replica-2')
    world.files.rename('/replica-2-away', '/replica-2')
    await later(goesOn)
    assert(world.files.exists(first!.recordsPath.replace('/data', '/replica-2')))
    await again.close()
  })

  it('is left out while it is empty, as a mount point is without its disk, and the reason says what to do', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    world.files.makeDirectory('/replica-2')
    await later(running)
    assert.equal(log.state.kind, 'degraded')
    assert.match(
      log.lostReplicas[0]!.reason,
      /does not hold this log. Bring its files back, and it is used again; if it is empty, a restart fills it/,
    )
    assert.deepEqual(world.files.list('/replica-2'), [])
  })

  it('is not made anew when it goes again while it is filled', async () => {
    const running = await started()
    const { world, log } = running
    const { files } = world
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    fill(running, 12, 40)
    files.rename('/replica-2-away', '/replica-2')
    const makeDirectory = files.makeDirectory.bind(files)
    files.makeDirectory = (path) => {
      files.makeDirectory = makeDirectory
      files.rename('/replica-2', '/replica-2-away')
      makeDirectory(path)
    }
    await later(running)
    assert.deepEqual([log.state.kind, files.exists('/replica-2')], ['degraded', false])
    files.rename('/replica-2-away', '/replica-2')
    await later(running)
    assert.equal(log.state.kind, 'ok')
    await log.close()
    assert.deepEqual(filesOf(running, '/replica-2'), filesOf(running, '/data'))
  })

  it('leaves nothing of a file that its disk had no room for', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    fill(running, 12, 40)
    world.files.rename('/replica-2-away', '/replica-2')
    world.files.faults = { write: (path) => (path.startsWith('/replica-2') && path.endsWith('.tmp') ? 'ENOSPC' : null) }
    await later(running)
    assert.equal(log.state.kind, 'degraded')
    assert.deepEqual(
      world.files.paths().filter((path) => path.endsWith('.tmp')),
      [],
    )
    world.files.faults = {}
    await later(running)
    assert.equal(log.state.kind, 'ok')
  })

  it('is left out while another process has it', async () => {
    let isTaken = false
    const running = await started(1, (environment) => ({
      lock: async (directory) => {
        if (isTaken) throw new StoreError('unavailable', 'data_directory_locked', `another process has ${directory}`)
        return environment.lock(directory)
      },
    }))
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    world.files.rename('/replica-2-away', '/replica-2')
    isTaken = true
    await later(running)
    assert.equal(log.state.kind, 'degraded')
    assert.match(log.lostReplicas[0]!.reason, /another process has \/replica-2/)
    isTaken = false
    await later(running)
    assert.equal(log.state.kind, 'ok')
  })

  it('is filled again from where it had synced when a sync failed there', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    let fails = true
    world.files.faults = { sync: (path) => (fails && path.startsWith('/replica-2/') ? 'EIO' : null) }
    fill(running, 12, 13)
    assert.equal(log.state.kind, 'degraded')
    fails = false
    fill(running, 13, 30)
    await later(running)
    assert.equal(log.state.kind, 'ok')
    await log.close()
    world.end('crash')
    const alone = await world.open({ ...OPTIONS, directory: '/replica-2', replicas: [], writeQuorum: 1 })
    assert.deepEqual([replay(alone, world.files).frames.length, alone.incidents], [30, []])
  })

  it('keeps what the primary cannot read any more', async () => {
    const running = await started()
    const { world, log } = running
    fill(running, 0, 12)
    takeAway(running, '/replica-2')
    world.files.damage(log.segments[0]!.recordsPath, (bytes) => bytes.fill(0, 200, 300))
    world.files.rename('/replica-2-away', '/replica-2')
    fill(running, 12, 30)
    await later(running)
    assert.equal(log.state.kind, 'ok')
    assert(filesOf(running, '/replica-2')[0]!.equals(filesOf(running, '/replica-1')[0]!))
    assert(!filesOf(running, '/data')[0]!.equals(filesOf(running, '/replica-1')[0]!))
  })

  it('costs nothing that was acknowledged, wherever the power goes', async () => {
    const seed = testSeed()
    for (let run = 0; run < modelRuns(100); run += 1) await livesThroughPowerCut(seed + run)
  })
})

/** A replica is lost, more is written, the replica comes back, and the power may fail at some write or sync. Nothing acknowledged may be missing. */
async function livesThroughPowerCut(seed: number): Promise<void> {
  const random = mulberry32(seed)
  const below = (count: number): number => Math.floor(random() * count)
  let isOver = false
  // If the power fails in the middle of a restart in place, the restart never ends.
  const inTurns: Pace = async (steps) => {
    for (;;) {
      const step = steps.next()
      if (step.done) return step.value
      if (random() < 0.3) await nextTurn()
      if (isOver) return new Promise<never>(() => {})
    }
  }
  const running = await started(seed, () => ({}), seed % 2 === 0 ? withoutPauses : inTurns)
  const { world, log, writer } = running
  const sent: { readonly payload: Buffer; readonly end: number; readonly generation: number }[] = []
  const write = (count: number): void => {
    for (let n = 0; n < count; n += 1) {
      const payload = payloadOf(sent.length, 100 + below(900))
      const result = append(writer, payload)
      if (typeof result === 'string') return
      sent.push({ payload, end: result.end, generation: result.generation })
      if (random() < 0.8) world.step()
    }
  }
  const lost = REPLICAS[below(2)]!
  let fails = false
  let left = Infinity
  const fault = (path: string): string | null => {
    left -= 1
    return left < 0 || (fails && path.startsWith(`${lost}/`)) ? 'EIO' : null
  }
  world.files.faults = { sync: fault, write: fault }
  write(10 + below(20))
  fails = true
  write(1 + below(30))
  fails = false
  const dropped = random() < 0.5 ? log.segments[below(log.segments.length)]!.base : 0
  if (dropped > 0) log.dropBefore(dropped)
  left = below(150)
  await later(running)
  write(below(20))
  world.step()
  const stored = sent.filter(({ end, generation }) => log.outcome(end, generation) === 'stored')
  isOver = true
  world.end('crash')
  world.files.faults = {}
  const again = await world.open(OPTIONS)
  const { frames, damage } = replay(again, world.files)
  assert.deepEqual(damage, [], `seed ${seed}`)
  const found = new Map(frames.map(({ end, payload }) => [end, payload]))
  for (const { end, payload } of stored.filter((frame) => frame.end > dropped))
    assert(found.get(end)?.equals(payload), `seed ${seed}: a frame that ends at ${end}`)
}

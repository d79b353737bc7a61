/**
 * kill -9, again and again, on one data directory: a process is killed at a random moment, every so often once more while it is
 * still starting, and after every start it is checked. The load and the check are the caller's.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../bench/load/random.ts'
import { messageOf } from '../../src/errors.ts'
import { entryFile } from '../../test/support/entry.ts'
import type { Command, RunningService } from '../../test/support/process.ts'

/** One start in so many is killed before it is ready. */
const STARTS_PER_EARLY_KILL = 5
/** Such a kill comes within so much of the longest start so far. */
const EARLY_KILL_SHARE = 0.9

/** One life in so many may last so many times longer than others. */
const LIVES_PER_LONG_ONE = 8
const LONG_LIFE = 3
const LOG_CHARACTERS_SHOWN = 2000

/** What the caller may choose. */
export interface RoundOptions {
  readonly rounds: number
  /** Between a start that is ready and the kill. */
  readonly liveMsMax?: number
  readonly report?: (line: string) => void
}

export interface KillRounds {
  readonly server: RunningService
  /** What the server runs. */
  readonly command: Command
  readonly random: Random
  readonly rounds: number
  /** Directories of a replicated log, the primary first: any of them is wiped every so often. Without replicas none is. */
  readonly directories: readonly string[]
  /** How long the process lives, once it is ready. */
  readonly liveMs: () => number
  /** Passes the time of a life. */
  readonly live: (ms: number) => Promise<unknown>
  /** After a kill, before the next start. */
  readonly down?: () => Promise<void>
  /** After a start; what it found, for the report. */
  readonly check: () => Promise<string>
  readonly report?: (line: string) => void
}

export interface KillCounts {
  readonly kills: number
  readonly killsWhileStarting: number
  readonly startMs: { readonly mean: number; readonly max: number }
}

/** Most are short, some are long. */
export const lifeMs = (random: Random, maxMs: number): number =>
  random.between(0, random.between(1, LIVES_PER_LONG_ONE) === 1 ? LONG_LIFE * maxMs : maxMs)

/** Ends the load in any case; shows what the server said when something is wrong: all of it to the report, the end in the error. */
export async function underLoad<Result>(
  load: { abandon(): void },
  server: RunningService,
  { report }: RoundOptions,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run()
  } catch (error) {
    report?.(server.stderr)
    const said = server.stderr.slice(-LOG_CHARACTERS_SHOWN)
    throw new Error(`${messageOf(error)}\nThe log of the process ends with ${said}`, { cause: error })
  } finally {
    load.abandon()
  }
}

export async function runRounds(options: KillRounds): Promise<KillCounts> {
  const { server, command, random, rounds, directories, report } = options
  const startsMs: number[] = []
  let killsWhileStarting = 0
  for (let round = 1; round <= rounds; round++) {
    const liveMs = options.liveMs()
    await options.live(liveMs)
    await server.kill()
    await options.down?.()
    // Only what a start made whole again may be lost next: the others hold everything by then.
    const isWiped = directories.length > 1 && random.between(0, 1) === 0
    const wiped = isWiped ? directories[random.between(0, directories.length - 1)]! : null
    if (wiped !== null) rmSync(wiped, { recursive: true })
    if (random.between(1, STARTS_PER_EARLY_KILL) === 1) {
      await killWhileStarting(command, random.between(0, EARLY_KILL_SHARE * Math.max(100, ...startsMs)))
      killsWhileStarting++
    }
    const startedMs = performance.now()
    await server.startAgain()
    startsMs.push(performance.now() - startedMs)
    const found = await options.check()
    const start = `ready in ${startsMs.at(-1)!.toFixed(0)} ms`
    report?.(`${round}: killed after ${liveMs} ms, ${wiped ? `${wiped} wiped, ` : ''}${start}, ${found}`)
  }
  return {
    kills: startsMs.length + killsWhileStarting,
    killsWhileStarting,
    startMs: { mean: startsMs.reduce((sum, ms) => sum + ms, 0) / startsMs.length, max: Math.max(...startsMs) },
  }
}

async function killWhileStarting({ entry, args, env }: Command, afterMs: number): Promise<void> {
  const file = entryFile(entry)
  const child = spawn(process.execPath, [file, ...args], { env: { ...process.env, ...env }, stdio: 'ignore' })
  const exited = once(child, 'exit')
  await sleep(afterMs)
  child.kill('SIGKILL')
  const [, signal] = await exited // it may have become ready meanwhile
  assert.equal(signal, 'SIGKILL', 'it ended by itself while it was starting')
}

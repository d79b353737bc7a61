/**
 * Reporter of node:test in a test process: tells the runner how each test ended, and which file made a failure.
 *
 * A stray error is one that no test awaits. node:test fails a test with it, which may be one of another file, or aborts all tests that
 * are still to come. Here the asynchronous context in which the error was made names the file. node:test hears only of the strays of
 * the file that runs; those of an earlier file are told when the running file ends.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { relative } from 'node:path'
import type { EventData } from 'node:test'
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'
import type { Failure, Report } from './messages.ts'

const FRAMES_MAX = 12
/** The nesting of the suite that is the file. */
const FILE = 0
const STUCK = 'waits for what can no longer happen: nothing is left that could wake the process'

/** The test file to which the code that runs belongs. */
const ownerOf = new AsyncLocalStorage<string>()
const strays = new Map<unknown, string>()
/** Whether any test of this process failed, or there was a stray error. */
let hadFailure = false
let runningFile = ''
let runningTest = ''
let whenEnded = (): void => {}

process.on('exit', tellStrays)

export function tell(report: Report): void {
  if (report.kind === 'failed') hadFailure = true
  process.send!(report)
}

/**
 * Runs a file, which is a suite, and returns when its tests have ended and what they left has been cleared.
 *
 * @returns whether other files may follow in this process; false after a failure, which may leave servers and timers behind
 */
export async function reportFile(file: string, run: () => Promise<void>, clear: () => void): Promise<boolean> {
  runningFile = file
  const ended = new Promise<void>((resolve) => (whenEnded = resolve))
  await ownerOf.run(file, run)
  await ended
  clear()
  await new Promise((resolve) => process.send!({ kind: 'ended' } satisfies Report, resolve)) // all that was told is sent by then
  return !hadFailure
}

/** Stands between these errors and node:test, which has begun to listen for them. */
function takeOver(eventName: 'uncaughtException' | 'unhandledRejection'): void {
  const heardBefore = process.listeners(eventName as 'uncaughtException') // both get the error first
  process.removeAllListeners(eventName)
  process.on(eventName, (error: Error) => {
    hadFailure = true
    const owner = ownerOf.getStore() ?? runningFile
    strays.set(error, owner)
    if (owner === runningFile) for (const listener of heardBefore) listener(error, eventName)
  })
}

export function tellFailure(name: string, error: unknown, file = runningFile): void {
  tell({ kind: 'failed', failure: { file, at: null, name, text: textOf(error) } })
}

// oxlint-disable-next-line import/no-default-export
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  takeOver('uncaughtException')
  takeOver('unhandledRejection')
  const path: string[] = []
  for await (const event of events) {
    if (event.type === 'test:dequeue' && event.data.nesting > FILE) {
      runningTest = `${placeOf(event.data)} ${event.data.name}`
      tell({ kind: 'running', test: runningTest })
    }
    if (event.type === 'test:start') path.splice(event.data.nesting, Infinity, event.data.name)
    if (event.type === 'test:pass') passed(event.data)
    if (event.type === 'test:fail') failed(event.data, path)
    if (event.type === 'test:diagnostic' && event.data.file !== undefined) {
      tell({ kind: 'noted', at: placeOf(event.data), text: event.data.message })
    }
  }
  yield '' // nothing is printed here
}

function passed({ nesting, details, skip, todo }: EventData.TestPass): void {
  if (nesting === FILE) fileEnded()
  else if (details.type !== 'suite') tell({ kind: skip === undefined && todo === undefined ? 'passed' : 'skipped' })
  else if (skip !== undefined) tell({ kind: 'skipped' }) // as one: what is in it is not told
}

function fileEnded(): void {
  tellStrays()
  whenEnded()
}

function failed(data: EventData.TestFail, path: readonly string[]): void {
  tellFailed(data, path)
  if (data.nesting === FILE) fileEnded()
}

function tellFailed(data: EventData.TestFail, path: readonly string[]): void {
  const error = data.details.error as Error & { readonly failureType?: string }
  const cause: unknown = error.cause ?? error
  strays.delete(cause)
  if (error.failureType === 'subtestsFailed') return // what failed was told
  if (data.todo !== undefined) return tell({ kind: 'skipped' })
  if (error.failureType === 'cancelledByParent' && data.details.type !== 'suite') return tell({ kind: 'cancelled' })
  if (data.nesting === FILE) {
    const isStuck = error.failureType === 'cancelledByParent'
    return isStuck ? tellFailure(runningTest, new Error(STUCK)) : tellFailure('a hook of the file', cause)
  }
  const name = [...path.slice(1, data.nesting), data.name].join(' > ')
  const failure: Failure = { file: runningFile, at: placeOf(data), name, text: textOf(cause) }
  tell({ kind: 'failed', failure })
}

function tellStrays(): void {
  for (const [error, file] of strays) tellFailure('an error that no test awaited', error, file)
  strays.clear()
}

function placeOf({ file, line }: { readonly file?: string | undefined; readonly line?: number | undefined }): string {
  return file === undefined ? '' : `${relative(process.cwd(), file)}:${line}`
}

/** The message, with the difference of an assertion, the frames in our own code and the causes. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return inspect(error)
  const stack = error.stack ?? String(error)
  const frames = stack.split('\n').filter((line) => /^ {4}at /.test(line))
  const firstFrame = stack.search(/\n {4}at /)
  const own = frames.filter((line) => !line.includes('(node:') && !line.includes('at node:')).slice(0, FRAMES_MAX)
  const causes = error instanceof AggregateError ? error.errors : error.cause === undefined ? [] : [error.cause]
  return [
    firstFrame < 0 ? stack : stack.slice(0, firstFrame),
    ...own.map((line) => line.replaceAll(`file://${process.cwd()}/`, '')),
    ...causes.map((cause) => `caused by: ${textOf(cause)}`),
  ].join('\n')
}

/**
 * `trilog backup`, `restore` and `inspect` as a process: stdout has the answer and nothing else, stderr the reason why there is none.
 *
 * Exit code 0: done, and nothing is wrong. 1: something is damaged, or was refused. 2: the command line cannot work.
 */
import { resolve } from 'node:path'
import type { Environment } from '../config/settings.ts'
import { StoreError, messageOf } from '../errors.ts'
import { nodeFiles } from '../log/node-files.ts'
import { backUp } from '../maintenance/backup.ts'
import { check, gapsOf, isWhole } from '../maintenance/check.ts'
import { openDirectoryTarget } from '../maintenance/directory-target.ts'
import { inspect } from '../maintenance/inspect.ts'
import { paceOf } from '../maintenance/pace.ts'
import { restore } from '../maintenance/restore.ts'
import { openS3Target, s3PlaceOf } from '../maintenance/s3-target.ts'
import type { BackupTarget, TargetAccess } from '../maintenance/target.ts'
import { systemClock } from '../observability/system-clock.ts'
import { withoutUrlSecrets } from '../url-secrets.ts'
import { writeAnswer } from './answer-output.ts'
import { EXIT_REFUSED } from './failure.ts'
import type { BackupPlace, StoreCommand } from './store-command.ts'
import { asJson, backupJson, backupText, checkJson, checkText, inspectText, restoreText } from './store-text.ts'
import { styleFor } from './style.ts'
import type { Style } from './style.ts'

interface Answer {
  readonly json: unknown
  readonly text: (style: Style) => readonly string[]
  readonly isWell: boolean
}

export async function runStoreCommand(command: StoreCommand, env: Environment): Promise<void> {
  try {
    const { json, text, isWell } = await answerTo(command)
    const lines = command.json ? [JSON.stringify(asJson(json))] : text(styleFor(process.stdout, env))
    writeAnswer(lines.join('\n'))
    if (!isWell) process.exitCode = EXIT_REFUSED
  } catch (error) {
    const isKnown = error instanceof StoreError || (error instanceof Error && 'syscall' in error)
    if (!isKnown) throw error
    const shown = error instanceof StoreError ? `${error.message} (${error.code})` : messageOf(error)
    process.stderr.write(`${styleFor(process.stderr, env).bad('error')}: ${withoutUrlSecrets(shown)}\n`)
    process.exitCode = EXIT_REFUSED
  }
}

async function answerTo(command: StoreCommand): Promise<Answer> {
  if (command.kind === 'inspect') {
    const logs = inspect(nodeFiles, resolve(command.dataDirectory))
    const isWell = logs.every(({ problems }) => problems.length === 0)
    return { json: { whole: isWell, logs }, text: (style) => inspectText(logs, style), isWell }
  }
  if (command.kind === 'backup') return withTarget(command.to, 'create', (target) => backupAnswer(command, target))
  if (command.kind === 'restore') return withTarget(command.from, 'read', (target) => restoreAnswer(command, target))
  return withTarget(command.from, 'read', async (target) => {
    const report = await check(target)
    const isWell = isWhole(report)
    return { json: checkJson(report, isWell), text: (style) => checkText(report, style), isWell }
  })
}

async function backupAnswer(
  { dataDirectory, replicas, keep, bytesPerSecond, to }: StoreCommand & { readonly kind: 'backup' },
  target: BackupTarget,
): Promise<Answer> {
  const report = await backUp({
    files: nodeFiles,
    dataDirectory: resolve(dataDirectory),
    replicas: replicas.map((replica) => resolve(replica)),
    target,
    keep,
    isLocked: s3PlaceOf(to.place) === null,
    nowMs: systemClock.wallMs,
    pace: paceOf(bytesPerSecond, { nowMs: systemClock.nowMs, sleep }),
  })
  const problems = report.snapshot.logs.flatMap(gapsOf)
  const damaged = report.damagedSnapshots.map((sequence) => `snapshot ${sequence} of ${target.name} is damaged`)
  const wrong = [...problems, ...damaged]
  return {
    json: backupJson(report, wrong),
    text: (style) => backupText(report, wrong, style),
    isWell: wrong.length === 0,
  }
}

const SLEEPING = new Int32Array(new SharedArrayBuffer(4))

/** Blocks the thread: this process does nothing else. */
function sleep(ms: number): void {
  Atomics.wait(SLEEPING, 0, 0, ms)
}

async function restoreAnswer(
  { dataDirectory, service, snapshot, position }: StoreCommand & { readonly kind: 'restore' },
  target: BackupTarget,
): Promise<Answer> {
  const logs = await restore({
    files: nodeFiles,
    target,
    dataDirectory: resolve(dataDirectory),
    place: service,
    sequence: snapshot,
    position,
  })
  return { json: { logs }, text: (style) => restoreText(logs, style), isWell: true }
}

async function withTarget(
  { place, endpoint }: BackupPlace,
  access: TargetAccess,
  run: (target: BackupTarget) => Promise<Answer>,
): Promise<Answer> {
  const bucket = s3PlaceOf(place)
  const target =
    bucket === null
      ? await openDirectoryTarget(nodeFiles, resolve(place), access)
      : await openS3Target(bucket, endpoint, access)
  try {
    return await run(target)
  } finally {
    await target.close()
  }
}

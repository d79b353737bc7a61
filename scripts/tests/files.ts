/**
 * How a test file runs is said by the end of its name, and by nothing else:
 *
 *   NAME.test.ts                  shares a process with others, as most files are shorter than the start of a process; coverage counts it
 *   NAME.process.test.ts          starts processes, which it may kill and measure: shares a process, which coverage would slow, with others of its kind
 *   NAME.covered.process.test.ts  likewise, but coverage counts what it starts: has a process of its own
 *   NAME.long.test.ts             computes for long, which coverage would double: shares a process with those that start processes
 *
 * A file with another end runs never; `test/test-files.test.ts` finds it.
 */
import { globSync } from 'node:fs'
import { basename } from 'node:path'

/** By the name without its folder. */
export const GROUPS = {
  shared: /^[\w-]+\.test\.ts$/,
  aloneCovered: /^[\w-]+\.covered\.process\.test\.ts$/,
  uncovered: /^[\w-]+\.(process|long)\.test\.ts$/,
} as const satisfies Record<string, RegExp>

export type Group = keyof typeof GROUPS

export const inGroup = (files: readonly string[], group: Group): readonly string[] =>
  files.filter((file) => GROUPS[group].test(basename(file)))

/** What runs when no file is named. */
export const allTestFiles = (): readonly string[] => globSync('test/**/*.ts')

/** These take longer than others: if they ran last, the run would wait for them alone. */
const LONGEST = [
  'test/package/package.process.test.ts',
  'test/cluster/logstore-faults.process.test.ts',
  'test/cluster/broker-faults.process.test.ts',
  'test/cluster/logstore.process.test.ts',
  'test/maintenance/objectstore.process.test.ts',
  'test/logstore/faults/threads.process.test.ts',
  'test/console/layout.process.test.ts',
  'test/console/objects.process.test.ts',
  'test/console/logs.process.test.ts',
  'test/console/streams.process.test.ts',
  'test/cluster/broker.process.test.ts',
  'test/logstore/crash/kill.process.test.ts',
  'test/maintenance/logstore.process.test.ts',
  'test/logstore/bucket/faults.process.test.ts',
  'test/logstore/conformance/tail.process.test.ts',
  'test/logstore/bucket/query-store.process.test.ts',
  'test/cli/local.process.test.ts',
  'test/maintenance/broker.process.test.ts',
  'test/package/typed-clients.process.test.ts',
]

export const longestFirst = (files: readonly string[]): string[] => [
  ...LONGEST.filter((file) => files.includes(file)),
  ...files.filter((file) => !LONGEST.includes(file)),
]

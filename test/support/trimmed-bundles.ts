/** Takes expired records from the bundles of a test's store. */
import { nodeFiles } from '../../src/log/node-files.ts'
import { mergeBundles } from '../../src/logstore/compact/merge-bundles.ts'
import { trimBundle } from '../../src/logstore/compact/trim-bundle.ts'
import { LOG_ID } from './stored-segments.ts'
import type { TestStore } from './stored-segments.ts'

/** Later than all records of the stores: their times are about 1 ms after the epoch, or that of their receipt, about 4 s after it. */
export const NOW_NS = 20_000_000_000n

/** @param datasets by dataset, how many seconds its records are kept, for every tenant */
export const retentionOf = (datasets: Readonly<Record<string, number>>) =>
  new Map(['acme', 'globex', 'local'].map((tenant) => [tenant, new Map(Object.entries(datasets))]))

/** Trims as the background does: takes expired records from the bundle over the segment, if that is due. */
export function trimIn(
  store: TestStore,
  segment: number,
  datasets: Readonly<Record<string, number>>,
  settles = true,
): string {
  const { base } = store.segments[segment]!
  const bundle = store.bundles().find((each) => each.base <= base && base < each.end)!
  const { isMerged = false } = bundle
  const segments = store.segments.filter((each) => each.base >= bundle.base && each.end <= bundle.end)
  const common = { logId: LOG_ID, segments, segmentsDirectories: [store.directory] }
  const range = { base: bundle.base, end: bundle.end }
  const task = { ...common, bundle: { ...range, isMerged }, retention: retentionOf(datasets), nowNs: NOW_NS }
  const result = trimBundle(nodeFiles, { ...task, kind: 'trim' }, () => true)
  if (result.kind !== 'trimmed') return result.kind
  store.replace(bundle, result.bundles)
  if (!settles) return result.kind
  if (isMerged) trimBundle(nodeFiles, { ...task, kind: 'settle-apart' }, () => true)
  else mergeBundles(nodeFiles, { ...common, bundles: [{ ...range, isMerged: true }], kind: 'settle' }, () => true)
  return result.kind
}

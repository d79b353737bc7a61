/**
 * How test files run. Most are shorter than the start of a process, so they share processes. Those that start services, kill, measure
 * or compute for long have processes of their own. Coverage counts what runs the code in its own process, and the suites of routes.
 */
import { globSync } from 'node:fs'

const suites = globSync('test/*/conformance/suites.test.ts')
const uncovered = globSync([
  'test/{bench,cli,client,conformance,crash,docs,faults,integration,load,runner}/*.test.ts',
  'test/*/{crash,faults,index,state}/*.test.ts',
  'test/*/conformance/!(suites).test.ts',
])

export const ALONE_COVERED: readonly string[] = suites
export const ALONE: readonly string[] = uncovered
export const SHARED: readonly string[] = globSync('test/**/*.test.ts').filter(
  (file) => !suites.includes(file) && !uncovered.includes(file),
)

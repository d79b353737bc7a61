/** What the runner and a test process tell each other, over the channel between them. */

/** To a test process. */
export interface Assignment {
  /** The file to run next, relative to the working directory; null: there is no more. */
  readonly file: string | null
}

export interface Failure {
  /** The test file that made it. */
  readonly file: string
  /** Where the test is, as `file:line`: several test files may run the same suite. Null for what belongs to no test. */
  readonly at: string | null
  /** The test, behind the suites that it is in. */
  readonly name: string
  /** Message, difference and stack. */
  readonly text: string
}

/** From a test process. */
export type Report =
  | { readonly kind: 'idle' } // it waits for an assignment
  | { readonly kind: 'ended' } // the assigned file
  | { readonly kind: 'running'; readonly test: string }
  | { readonly kind: 'passed' }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'cancelled' } // did not run, as a hook or the suite around it failed
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'noted'; readonly at: string; readonly text: string } // a diagnostic of a test, such as its seed

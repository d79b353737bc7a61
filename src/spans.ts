/** What parts of a service that know nothing of traces are given to show how long their work for a request takes. Null: nobody looks. */

/** Begins a span of the request for which work is being done, if there is one. @returns what ends it */
export type BeginSpan = (name: string) => () => void

/** A pool of jobs whose runs are spans of the requests that wait for them. */
export function spanned<Jobs extends { run(...job: never[]): Promise<unknown> }>(
  jobs: Jobs,
  beginSpan: BeginSpan | null,
  name: string,
): Pick<Jobs, 'run'> {
  if (beginSpan === null) return jobs
  const run = async (...job: never[]): Promise<unknown> => {
    const end = beginSpan(name)
    try {
      return await jobs.run(...job)
    } finally {
      end()
    }
  }
  return { run } // it takes and gives what that one does
}

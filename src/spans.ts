/** Shows how long the parts of a service work for a request; these parts know nothing of traces. Null: tracing is off. */

/** Begins a span of the current request, if there is one. @returns a function that ends it */
export type BeginSpan = (name: string) => () => void

/** A pool of jobs whose runs are spans of the requests that wait for them. */
export function withSpans<Jobs extends { run(...job: never[]): Promise<unknown> }>(
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
  return { run } // has the types of `jobs.run`
}

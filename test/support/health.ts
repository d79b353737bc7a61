/** Health and read errors for parts that are tested without their service. */
import type { ReadinessParts, ServiceHealth } from '../../src/http/standing-endpoints.ts'
import { ReadErrors } from '../../src/observability/read-errors.ts'

export const WELL: ServiceHealth = { problems: () => [], degradations: () => [] }

/** A service that is open and needs no credentials. */
export const OPEN: ReadinessParts = { health: WELL, startup: { phase: { kind: 'open' } }, isKnown: () => true }

/** Read errors with a clock that stands still; their log lines are dropped. */
export const unloggedReadErrors = (): ReadErrors => new ReadErrors(() => 0, { error: () => {} })

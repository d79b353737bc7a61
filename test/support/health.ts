/** Health and read errors for parts that are tested without their service. */
import type { ReadinessParts, ServiceHealth } from '../../src/http/standing-endpoints.ts'
import { ReadErrors } from '../../src/observability/read-errors.ts'

export const WELL: ServiceHealth = { problems: () => [], degradations: () => [] }

/** Of a service that is open, and asks for no credentials. */
export const OPEN: ReadinessParts = { health: WELL, startup: { phase: { kind: 'open' } }, isKnown: () => true }

/** At a time that stands still; what it logs is not looked at. */
export const unloggedReadErrors = (): ReadErrors => new ReadErrors(() => 0, { error: () => {} })

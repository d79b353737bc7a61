/** Health and read errors for parts that are tested without their service. */
import type { ServiceHealth } from '../../src/http/standing-endpoints.ts'
import { ReadErrors } from '../../src/observability/read-errors.ts'

export const WELL: ServiceHealth = { problems: () => [], degradations: () => [] }

/** At a time that stands still; what it logs is not looked at. */
export const unloggedReadErrors = (): ReadErrors => new ReadErrors(() => 0, { error: () => {} })

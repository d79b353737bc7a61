/** The refusal of a caller that lacks a permission. */
import type { Permission } from './grants.ts'
import { refuse } from './refusals.ts'
import type { BrokerError } from './refusals.ts'

export const denied = (permission: Permission): BrokerError =>
  refuse('authorization_denied', `this needs the permission ${permission}`)

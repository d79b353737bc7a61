/**
 * The principals that a statement is about. This service knows principals by name. A policy names them by this name, as canonical user, or by an ARN of
 * IAM, of which the name counts: `arn:aws:iam::111122223333:user/dev/ci` is `ci`, `…:root` is the account itself.
 */
import { refuse } from '../../refusals.ts'

const ARN = /^arn:[\w-]*:(?:iam|sts)::([^:]*):(?:root|(?:user|role|assumed-role)\/(?:.*\/)?([^/]+))$/

/** @param value of `Principal` or `NotPrincipal` @throws S3Error MalformedPolicy */
export function parsePrincipals(value: unknown): (principal: string | null) => boolean {
  const names = new Set(listed(value).map(nameOf))
  const everybody = names.has('*')
  return (principal) => everybody || (principal !== null && names.has(principal))
}

function listed(value: unknown): readonly string[] {
  if (value === '*') return ['*']
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid()
  const names = Object.entries(value).flatMap(([kind, named]: [string, unknown]) => {
    const list: readonly unknown[] = Array.isArray(named) ? named : [named]
    if (kind !== 'AWS' && kind !== 'CanonicalUser') throw invalid()
    if (!list.every((each) => typeof each === 'string' && each !== '')) throw invalid()
    return list as readonly string[] // each was checked
  })
  if (names.length === 0) throw invalid()
  return names
}

function nameOf(principal: string): string {
  if (!principal.startsWith('arn:')) return principal
  const [, account, name] = ARN.exec(principal) ?? []
  const found = name ?? account
  if (found === undefined || found === '') throw invalid()
  return found
}

const invalid = (): Error => refuse('MalformedPolicy', 'Invalid principal in policy')
